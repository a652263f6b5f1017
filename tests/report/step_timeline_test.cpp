#include "ripieno/report/step_timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"
#include "ripieno/observe/recorder.h"
#include "tests/report/runs.h"
#include "tests/support/temporary_folder.h"

namespace ripieno::report {
namespace {

using testing::made_run;

/// A run's traces as its recorders leave them. A step takes `pace` ms: forward and backward, half of it each; where it
/// has an exchange, buckets 0 and 1 go side by side in its last quarter, and a message to the other rank with each.
class Traced : public ::testing::Test {
 protected:
  Traced() { run.folder = folder.path(); }

  void trace(int rank, double pace, const std::vector<std::uint64_t>& exchanged) {
    const auto runtime = virtual_runtime(0);
    observe::Recorder recorder(*runtime, nullptr, nullptr);
    recorder.trace_to(std::make_unique<LineFile>(run.folder / text("trace-", rank, ".json")),
                      {.rank = rank, .ranks = 2, .ahead = from_seconds(5), .clock_error = from_seconds(rank * 1e-6)});
    runtime->spawn("training", steps(runtime.get(), &recorder, rank, pace * 1e-3, exchanged));
    runtime->run();
    recorder.end();
  }

  static Task<> steps(Runtime* runtime, observe::Recorder* recorder, int rank, double pace,
                      std::vector<std::uint64_t> exchanged) {
    recorder->begin();
    std::uint64_t exchanges = 0;
    for (std::uint64_t step = 0; step < 6; ++step) {
      const Duration start = runtime->now();
      const auto at = [&](double part) { return start + from_seconds(part * pace); };
      co_await runtime->sleep(from_seconds(pace));
      recorder->span({"forward", step % 3, start, at(0.5)});
      recorder->span({"backward", step % 3, at(0.5), at(1)});
      if (std::find(exchanged.begin(), exchanged.end(), step) != exchanged.end()) {
        for (std::uint32_t bucket = 0; bucket < 2; ++bucket) {
          recorder->message({"send", 1 - rank, observe::Purpose::exchange, bucket, "ring", 100 + bucket, exchanges,
                             at(0.75), at(0.8)});
          recorder->message({"receive", 1 - rank, observe::Purpose::exchange, bucket, "ring", 100 + bucket, exchanges,
                             at(0.75), at(0.9)});
          recorder->span({"exchange", bucket, at(0.75 + 0.01 * bucket), at(0.95)});
        }
        ++exchanges;
      }
      recorder->exposed(at(0.9), at(0.95));
      recorder->step({.epoch = static_cast<std::uint32_t>(step / 3), .step = step});
    }
  }

  const TemporaryFolder folder;
  report::Run run = made_run("ring", 2, 0);  // of two epochs of three steps
};

TEST_F(Traced, AStepHasAllRanksOnOneLineOfTime) {
  for (const int rank : {0, 1}) trace(rank, 8, {0, 1, 2, 3, 4, 5});
  const auto timeline = read_step_timeline(run);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->step, 4u) << "the middle of the last epoch";
  EXPECT_TRUE(timeline->is_shared);
  EXPECT_NEAR(timeline->length, 8e-3, 1e-9);
  EXPECT_NEAR(timeline->clock_error, 1e-6, 1e-12);
  ASSERT_EQ(timeline->lanes.size(), 2u);
  for (const StepTimeline::Lane& lane : timeline->lanes) {
    EXPECT_EQ(lane.exchange_rows, 2u) << "two buckets side by side";
    std::map<std::string, std::vector<StepTimeline::Bar>> bars;
    for (const StepTimeline::Bar& bar : lane.bars) bars[bar.what].push_back(bar);
    ASSERT_EQ(bars["forward"].size(), 1u);
    EXPECT_NEAR(bars["forward"][0].begin, 0, 1e-9);
    EXPECT_NEAR(bars["backward"][0].end, 8e-3, 1e-9);
    EXPECT_NEAR(bars["exposed"][0].begin, 7.2e-3, 1e-9);
    ASSERT_EQ(bars["exchange"].size(), 2u);
    EXPECT_NE(bars["exchange"][0].row, bars["exchange"][1].row);
  }
  ASSERT_EQ(timeline->arrows.size(), 4u);
  for (const StepTimeline::Arrow& arrow : timeline->arrows) {
    EXPECT_EQ(arrow.from, 1 - arrow.to);
    EXPECT_NEAR(arrow.begin, 6e-3, 1e-9);
    EXPECT_NEAR(arrow.end, 7.2e-3, 1e-8);
    EXPECT_EQ(arrow.operation, "ring");
  }
  EXPECT_EQ(
      timeline->arrows[0].bytes + timeline->arrows[1].bytes + timeline->arrows[2].bytes + timeline->arrows[3].bytes,
      402u);
}

TEST_F(Traced, AStepWithAnExchangeIsTaken) {
  for (const int rank : {0, 1}) trace(rank, 8, {2, 5});  // as local SGD does
  EXPECT_EQ(read_step_timeline(run)->step, 5u);
  EXPECT_EQ(read_step_timeline(run, 2)->step, 2u);
  EXPECT_TRUE(read_step_timeline(run, 1)->arrows.empty());
}

TEST_F(Traced, WorkersThatDoNotStepTogetherAreShownDuringTheStepOfTheFirst) {
  trace(0, 8, {});
  trace(1, 20, {});
  const auto timeline = read_step_timeline(run);
  ASSERT_TRUE(timeline);
  EXPECT_FALSE(timeline->is_shared);
  EXPECT_NEAR(timeline->length, 8e-3, 1e-9);
  ASSERT_EQ(timeline->lanes.size(), 2u);
  const auto& other = timeline->lanes[1].bars;  // from 32 to 40 ms it is in its second step, 20 to 40 ms
  ASSERT_FALSE(other.empty());
  EXPECT_EQ(other.front().what, "backward");
}

TEST_F(Traced, WhatIsNotThereIsSaid) {
  EXPECT_FALSE(read_step_timeline(run)) << "no trace";
  EXPECT_TRUE(step_drawings({run}, {}).empty());
  const auto expect_error = [](const auto& act, const char* words) {
    try {
      act();
      ADD_FAILURE() << "expected: " << words;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  expect_error([&] { step_drawings({run}, 3); }, "run.trace=true");
  trace(0, 8, {});
  expect_error([&] { read_step_timeline(run, 77); }, "has the steps 0 to 5");
  write_file(run.folder / "trace-1.json", "[{\"name\":\"step 4\",\"cat\":\"step\",\"ph\":\"X\",\"ts\":1,\n]\n");
  expect_error([&] { read_step_timeline(run); }, "trace-1.json: holds what is no event");
}

TEST_F(Traced, OfARankThatWasKilledWhatIsWholeIsShown) {
  for (const int rank : {0, 1}) trace(rank, 8, {4});
  const std::string whole = read_file(run.folder / "trace-1.json");
  write_file(run.folder / "trace-1.json",
             whole.substr(0, whole.rfind("\"cat\":\"step\"")));  // within the last step's event
  const auto timeline = read_step_timeline(run);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->step, 4u);
  EXPECT_EQ(timeline->arrows.size(), 4u);
}

TEST_F(Traced, ADrawingHasALaneARankAndAnArrowAMessage) {
  for (const int rank : {0, 1}) trace(rank, 8, {4});
  const std::vector<Drawing> all = step_drawings({run}, {});
  ASSERT_EQ(all.size(), 1u);
  const Drawing& drawing = all[0];
  EXPECT_EQ(drawing.id, "step-1");
  EXPECT_NE(drawing.caption.find("Step 4 of the run, 8.00 ms."), std::string::npos) << drawing.caption;
  const auto count = [&](const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = drawing.svg.find(part, at)) != std::string::npos; at += part.size()) ++found;
    return found;
  };
  EXPECT_EQ(count(">rank 0<"), 1u);
  EXPECT_EQ(count(">rank 1<"), 1u);
  EXPECT_EQ(count("<line class=\"arrow\""), 4u);
  EXPECT_EQ(count("<rect class=\"exchange\""), 5u) << "two buckets a rank, and the legend";
  EXPECT_EQ(drawing.numbers.rows.size(), 2u * 5 + 4);
  Report report;
  report.title = "t";
  report.drawings = all;
  EXPECT_NE(html_page(report, "").find("<svg class=\"step\""), std::string::npos);
}

TEST(StepDrawing, HasALegendForStagesThatItDoesNotKnow) {
  StepTimeline timeline;
  timeline.length = 1;
  timeline.lanes = {{0, {{"compress", 0, 0, 0.4}, {"exposed", 0, 0.4, 0.5}, {"wait", 0, 0.5, 0.6}}, 0}};
  const std::string svg = drawing_of(timeline, "step-1", "t").svg;
  EXPECT_NE(svg.find("y=\"16\">compress</text>"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("y=\"16\">waits for an exchange</text>"), svg.rfind("y=\"16\">waits for an exchange</text>"));
}

}  // namespace
}  // namespace ripieno::report
