#include <gtest/gtest.h>

#include <filesystem>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"
#include "ripieno/report/ways.h"
#include "tests/support/temporary_folder.h"

namespace ripieno::report {
namespace {

TEST(UnfinishedRun, HasTheRatesOfItsSteps) {
  const TemporaryFolder scratch;
  const auto folder = scratch.path() / "killed_run";
  std::filesystem::create_directories(folder);
  const auto metrics = [](int rank, bool ended) {
    std::string all = text(R"({"type":"start","schema":1,"time":0,"rank":)", rank,
                           R"(,"ranks":2,"host":"a","first_epoch":0,"epochs":9,"steps_per_epoch":2})", "\n");
    for (int i = 0; i < 3; ++i) {
      all += text(R"({"type":"step","time":)", i + 1, R"(,"epoch":)", i / 2, R"(,"step":)", i,
                  R"(,"loss":1,"samples":8,"seconds":{"forward":0.25,"exchange":0.75},"bytes":null})", "\n");
      if (i == 1 && ended) all += "{\"type\":\"epoch\",\"time\":2,\"epoch\":0,\"seconds\":2,\"bytes\":null}\n";
    }
    return all;
  };
  Summary known;
  known.name = known.strategy = "ring";
  known.world_size = 2;
  for (const bool second_ended : {true, false}) {
    write_file(folder / "metrics-0.jsonl", metrics(0, true));
    write_file(folder / "metrics-1.jsonl", metrics(1, second_ended));
    const std::vector<report::Run> runs{read_unfinished(folder, known)};
    EXPECT_EQ(runs[0].summary.images_per_second, 16);  // of each 24 in 3 s
    EXPECT_EQ(exposed_seconds(cells(runs)[0])->middle, 1.5);
  }
}

}  // namespace
}  // namespace ripieno::report
