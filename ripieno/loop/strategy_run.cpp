#include "ripieno/loop/strategy_run.h"

#include "ripieno/c10d/limits.h"

namespace ripieno::loop {
namespace {

/// A lost rank ends the run: the loop cannot take its step again.
Task<collective::Communicator> nobody_goes_on(collective::Communicator) {
  fail(ErrorKind::peer, "in a loop of one's own no rank goes on without another");
}

}  // namespace

std::uint64_t compared_steps(const strategy::StrategyInfo& info, const strategy::Plan& plan, std::uint32_t length) {
  if (info.traits.has_cloud) return std::uint64_t{length} * plan.federated.local_epochs;
  return info.traits.own_pace ? 0 : 1;
}

StrategyRun::StrategyRun(collective::Communicator comm, const strategy::Layout& layout, LoopNumbers numbers,
                         const strategy::StrategyInfo& info, const strategy::Plan& plan, Options options)
    : comm_(comm),
      learner_(comm, layout, numbers, options.learner),
      own_recorder_(comm.runtime(), nullptr, nullptr),
      recorder_(options.recorder ? *options.recorder : own_recorder_),
      limit_(options.limit),
      own_pace_(info.traits.own_pace),
      finishes_(comm, compared_steps(info, plan, options.learner.steps_per_epoch),
                info.traits.has_cloud ? "round" : "step") {
  strategy::Workplace place{comm_, learner_, recorder_, {}, {}, &learner_};
  if (info.traits.survives) place.regroup = nobody_goes_on;
  strategy_ = strategy::make_strategy(info, plan, std::move(place));
}

Task<> StrategyRun::run() {
  const std::function<void(std::exception_ptr)> on_error = [this](std::exception_ptr error) { leave(error); };
  finishes_.listen(on_error);
  Task<> running = strategy_->run();
  Task<std::exception_ptr> ending = error_of(std::move(running));
  const std::exception_ptr error = co_await std::move(ending);
  if (error) comm_.abort(error);
  co_await finishes_.silent();
  learner_.ended(error);
}

Task<> StrategyRun::begin() {
  Task<> asked = limited("the beginning", learner_.asked());
  co_await std::move(asked);
}

Task<> StrategyRun::step(Turn turn) {
  ++steps_;
  std::exception_ptr error;
  try {
    finishes_.steps(steps_);
  } catch (...) {
    error = std::current_exception();
  }
  if (error) leave(error);
  Task<> taken = limited(text("step() number ", steps_), learner_.turn(std::move(turn)));
  co_await std::move(taken);
}

Task<> StrategyRun::finish() {
  Task<> all_end = limited("finish()", finishes_.finish());
  Task<std::exception_ptr> ending = error_of(std::move(all_end));
  const std::exception_ptr error = co_await std::move(ending);
  if (error) leave(error);
  const Turn last{.goes_on = false};
  Task<> end = learner_.turn(last);
  if (!own_pace_) end = limited("finish()", std::move(end));  // else the others may have many steps before them
  co_await std::move(end);
}

void StrategyRun::leave(std::exception_ptr why) {
  comm_.abort(why);
  learner_.break_off(why);
}

Task<> StrategyRun::limited(std::string what, Task<> act) {
  const std::function<void(std::exception_ptr)> give_up = [this](std::exception_ptr error) { leave(error); };
  return c10d::within_limit(comm_, limit_, std::move(what), std::move(act), give_up);
}

}  // namespace ripieno::loop
