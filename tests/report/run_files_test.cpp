// Runs and metrics, read back from their files.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <sstream>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"
#include "ripieno/report/report.h"
#include "tests/report/runs.h"
#include "tests/support/temporary_folder.h"

namespace ripieno::report {
namespace {

using testing::made_run;

class MetricsFile : public ::testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "metrics.jsonl";
  Metrics read(const std::string& content) {
    write_file(file_, content);
    return read_metrics(file_);
  }
  std::string refused(const std::string& content) {
    try {
      read(content);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      return error.what();
    }
    return "nothing was refused";
  }
};

constexpr const char* bytes = R"({"payload_sent":7,"payload_received":1,"framing_sent":2,"framing_received":3})";

TEST_F(MetricsFile, IsReadBack) {
  const Metrics metrics = read(
      text(R"({"type":"start","schema":1,"time":0.1,"rank":1,"ranks":2,"host":"a","first_epoch":0,"epochs":3,)"
           R"("steps_per_epoch":9})",
           "\n",
           R"({"type":"step","time":1.5,"epoch":0,"step":4,"loss":null,"samples":8,"learning_rate":0.1,"seconds":)"
           R"({"forward":0.25},"bytes":)",
           bytes, ",\"age\":3}\n", R"({"type":"to come","what":1})", "\n",
           R"({"type":"epoch","time":2,"epoch":0,"seconds":1.25,"test":{"accuracy":0.5,"loss":1},"stages":{},"bytes":)",
           bytes, "}\n", R"({"type":"step","time":)"));
  ASSERT_EQ(metrics.steps.size(), 1u);
  EXPECT_EQ(metrics.start->steps_per_epoch, 9u);
  EXPECT_EQ(metrics.steps[0].line, 2u);
  EXPECT_TRUE(std::isnan(metrics.steps[0].loss.value()));
  EXPECT_EQ(metrics.steps[0].seconds[observe::Stage::forward], 0.25);
  EXPECT_EQ(metrics.steps[0].bytes.value().payload_sent, 7u);
  EXPECT_EQ(metrics.steps[0].age, 3);
  ASSERT_EQ(metrics.epochs.size(), 1u);
  EXPECT_EQ(metrics.epochs[0].line, 4u);
  EXPECT_EQ(metrics.epochs[0].test->accuracy, 0.5);
  EXPECT_TRUE(read("").steps.empty());
}

TEST_F(MetricsFile, NamesTheLineThatIsWrong) {
  EXPECT_EQ(refused("{\"type\":\"end\"}\nnonsense\n"), file_.string() + " line 2: not JSON");
  EXPECT_EQ(refused("{\"type\":\"step\",\"time\":1}\n"), file_.string() + " line 1: field epoch is missing");
  EXPECT_NE(refused("{\"type\":\"start\",\"schema\":2}\n")
                .find("field schema must be 1: the run was made by a later version"),
            std::string::npos);
  EXPECT_NE(refused("[]\n").find("must be an object"), std::string::npos);
}

TEST(Run, AFolderHasANameHoweverItIsGiven) {
  for (const char* path : {"runs/0007-ring", "runs/0007-ring/", "/tmp/0007-ring/.", "./0007-ring"})
    EXPECT_EQ(folder_name(path), "0007-ring") << path;
}

TEST(Run, OneThatWasKilledIsReadAsFarAsItCame) {
  const TemporaryFolder scratch;
  const auto folder = scratch.path() / "killed_run";
  std::filesystem::create_directories(folder);
  const std::string start =
      R"({"type":"start","schema":1,"time":0,"rank":0,"ranks":2,"host":"a","first_epoch":0,"epochs":9,)"
      R"("steps_per_epoch":2})";
  const auto step = [](double time, int number) {
    return text(R"({"type":"step","time":)", time, R"(,"epoch":0,"step":)", number,
                R"(,"loss":1,"samples":8,"seconds":{"forward":1},"bytes":)", bytes, "}\n");
  };
  const std::string epoch = text(
      R"({"type":"epoch","time":3,"epoch":0,"seconds":2.5,"test":{"accuracy":0.5,"loss":1},"bytes":)", bytes, "}\n");
  write_file(folder / "metrics-0.jsonl",
             text(start, "\n", step(1, 0), step(2, 1), epoch, step(4, 2), "{\"type\":\"st"));
  Summary known;
  known.name = known.strategy = "ring";
  known.world_size = 2;  // rank 1 had not begun
  const report::Run run = read_unfinished(folder, known);
  EXPECT_TRUE(run.summary.unfinished);
  EXPECT_EQ(run.summary.epochs, 1.5);  // what was sent and waited for is of all three steps
  EXPECT_EQ(run.summary.epoch_seconds(), 2.5);
  EXPECT_EQ(run.summary.steps, 3u);
  EXPECT_EQ(run.summary.test->accuracy, 0.5);
  EXPECT_EQ(run.summary.exchange_payload_sent, 28u);
  EXPECT_EQ(run.summary.images_per_second, 6);  // 24 in the 4 s from the first step's beginning
  const Report made = report_of({run, made_run("ring", 2, 0)}, "t");
  EXPECT_EQ(cell_of_row(made, "runs", "killed_run …", "kind").text, "computed, unfinished: 1.5 epochs");
  EXPECT_EQ(made.conclusions.size(), 2u) << "what was killed is not compared with what was not";
  EXPECT_NE(made.lead.find("unfinished (…)"), std::string::npos);
  for (const ReportTable& table : made.tables) {
    for (const auto& row : table.rows) {
      for (const auto& cell : row) {
        if (cell.source && row[0].text == "killed_run …") {
          EXPECT_TRUE(std::filesystem::exists(cell.source->file)) << cell.source->file;
        }
      }
    }
  }
  write_file(folder / "metrics-0.jsonl", start + "\n");
  EXPECT_THROW(read_unfinished(folder, known), Error);
}

TEST(Run, AFolderWithoutASummaryIsNamed) {
  try {
    read_run("no/such/run");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no/such/run: is not a run's folder: it has no summary.json");
  }
}

}  // namespace
}  // namespace ripieno::report
