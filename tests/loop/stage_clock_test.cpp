// How a loop's steps are split into stages, on a clock that the test moves.
#include "ripieno/loop/stage_clock.h"

#include <gtest/gtest.h>

#include "tests/loop/line.h"

namespace ripieno::loop {
namespace {

using observe::Stage;

class StageClocks : public ::testing::Test {
 protected:
  void pass(double time) {
    runtime->spawn("time", runtime->sleep(from_seconds(time)));
    runtime->run();
  }
  void mark(StageClock& clock, Stage stage, double time) {
    clock.enter(stage);
    pass(time);
    clock.leave();
  }
  const std::unique_ptr<Runtime> runtime = virtual_runtime(0);
};

TEST_F(StageClocks, WhatNoStageHasIsOther) {
  StageClock clock(*runtime, false);
  mark(clock, Stage::read, 1);
  pass(0.5);
  mark(clock, Stage::forward, 2);
  mark(clock, Stage::forward, 3);
  mark(clock, Stage::evaluate, 8);
  pass(0.25);
  const observe::StageTimes times = clock.take("a step ends");
  EXPECT_EQ(seconds(times[Stage::read]), 1);
  EXPECT_EQ(seconds(times[Stage::forward]), 5);
  EXPECT_EQ(seconds(times[Stage::evaluate]), 8);
  EXPECT_EQ(seconds(times[Stage::other]), 0.75);
  EXPECT_EQ(seconds(times.steps()), 6.75);
  pass(1);
  EXPECT_EQ(seconds(clock.take("a step ends")[Stage::other]), 1);
}

TEST_F(StageClocks, AStageWithinAnotherCountsForItself) {
  StageClock clock(*runtime, false);
  clock.enter(Stage::exchange);
  pass(1);
  clock.enter(Stage::optimise);
  pass(2);
  mark(clock, Stage::read, 4);
  clock.leave();
  pass(8);
  clock.leave();
  const observe::StageTimes times = clock.take("a step ends");
  EXPECT_EQ(seconds(times[Stage::exchange]), 9);
  EXPECT_EQ(seconds(times[Stage::optimise]), 2);
  EXPECT_EQ(seconds(times[Stage::read]), 4);
  EXPECT_EQ(seconds(times[Stage::other]), 0);
}

TEST_F(StageClocks, AfterTheLastGradientABackwardPassWaitsForTheExchange) {
  for (const bool exchanges : {true, false}) {
    StageClock clock(*runtime, exchanges);
    clock.gradient_is_there();  // of an earlier pass
    pass(1);
    mark(clock, Stage::backward, 1);  // a pass without gradients of this net
    clock.enter(Stage::backward);
    pass(2);
    clock.gradient_is_there();
    pass(1);
    clock.gradient_is_there();
    pass(4);
    clock.leave();
    const observe::StageTimes times = clock.take("a step ends");
    EXPECT_EQ(seconds(times[Stage::backward]), exchanges ? 4 : 8);
    EXPECT_EQ(seconds(times[Stage::exchange]), exchanges ? 4 : 0);
  }
}

TEST_F(StageClocks, AStageThatIsNotEndedOrBegunIsNamed) {
  StageClock clock(*runtime, false);
  EXPECT_EQ(first_line_of_error([&] { clock.leave(); }), "a stage ends that has not begun");
  clock.enter(Stage::backward);
  EXPECT_EQ(first_line_of_error([&] { clock.take("a step ends"); }),
            "a step ends within the stage backward: end that before");
}

TEST_F(StageClocks, StagesAreFoundByName) {
  EXPECT_EQ(stage_named("optimise"), Stage::optimise);
  for (const char* name : {"optimize", "other", "exchange_hidden", ""}) {
    EXPECT_EQ(first_line_of_error([&] { stage_named(name); }),
              text("there is no stage ", name, "; known are read, forward, backward, exchange, optimise, evaluate"));
  }
}

}  // namespace
}  // namespace ripieno::loop
