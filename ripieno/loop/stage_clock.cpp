#include "ripieno/loop/stage_clock.h"

#include <algorithm>
#include <array>
#include <string>

#include "ripieno/core/error.h"

namespace ripieno::loop {
namespace {

using observe::Stage;

constexpr std::array marked{Stage::read,     Stage::forward,  Stage::backward,
                            Stage::exchange, Stage::optimise, Stage::evaluate};

}  // namespace

Stage stage_named(std::string_view name) {
  std::string known;
  for (const Stage stage : marked) {
    if (observe::info(stage).name == name) return stage;
    known += text(known.empty() ? "" : ", ", observe::info(stage).name);
  }
  fail(ErrorKind::usage, "there is no stage ", name, "; known are ", known);
}

StageClock::StageClock(const Runtime& runtime, bool exchanges)
    : runtime_(runtime), exchanges_(exchanges), taken_(runtime.now()) {}

void StageClock::enter(Stage stage) { open_.push_back({stage, runtime_.now()}); }

void StageClock::leave() {
  if (open_.empty()) fail(ErrorKind::usage, "a stage ends that has not begun");
  const Open ended = open_.back();
  open_.pop_back();
  const Duration now = runtime_.now(), all = now - ended.begun;
  if (!open_.empty()) open_.back().within += all;
  const Duration own = all - ended.within, gradient{last_gradient_.load()};
  Duration exchanged{0};
  if (ended.stage == Stage::backward && exchanges_ && gradient > ended.begun) exchanged = std::min(own, now - gradient);
  times_[Stage::exchange] += exchanged;
  times_[ended.stage] += own - exchanged;
}

observe::StageTimes StageClock::take(std::string_view doing) {
  if (!open_.empty()) {
    fail(ErrorKind::usage, doing, " within the stage ", observe::info(open_.back().stage).name, ": end that before");
  }
  const Duration now = runtime_.now();
  observe::StageTimes times = std::exchange(times_, {});
  times[Stage::other] =
      std::max(Duration(0), now - std::exchange(taken_, now) - times.steps() - times[Stage::evaluate]);
  return times;
}

}  // namespace ripieno::loop
