#include "ripieno/strategy/trainer.h"

#include <algorithm>
#include <cmath>

#include "ripieno/core/async.h"
#include "ripieno/strategy/pauses.h"

namespace ripieno::strategy {
namespace {

std::string count_of(std::uint32_t count, const char* what) { return text(count, ' ', what, count == 1 ? "" : "s"); }

}  // namespace

std::string described(Point point) {
  const std::string epochs = count_of(point.epoch, "epoch"), steps = count_of(point.step, "step");
  if (point.step == 0) return "after " + epochs;
  return point.epoch == 0 ? "after " + steps : text("after ", epochs, " and ", steps);
}

Task<> Strategy::run() {
  Trainer trainer(*this);
  co_await trainer.run();
}

std::uint32_t Strategy::epochs_end() const {
  const std::uint64_t steps = place_.learner.steps_per_epoch();
  if (plan_.max_steps == 0 || steps == 0) return plan_.epochs;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(plan_.epochs, (plan_.max_steps + steps - 1) / steps));
}

std::uint32_t Strategy::steps_in(std::uint32_t epoch) const {
  const std::uint32_t steps = place_.learner.steps_per_epoch();
  if (plan_.max_steps == 0) return steps;
  const std::uint64_t before = std::uint64_t{epoch} * steps;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(steps, plan_.max_steps - std::min(plan_.max_steps, before)));
}

Task<bool> Strategy::recover(BrokenOff) {
  fail(ErrorKind::internal, "a strategy that does not keep the commit contract has nothing to recover with");
  co_return false;
}

Trainer::Trainer(Strategy& strategy)
    : strategy_(strategy),
      plan_(strategy.plan_),
      place_(strategy.place_),
      learning_rate_(plan_.learning_rate, plan_.epochs, plan_.rate_scale) {}

Task<> Trainer::run() {
  if (plan_.is_resumed() && plan_.first_epoch >= plan_.epochs) {
    co_await strategy_.conclude();
    co_return;
  }
  co_await strategy_.start();
  if (place_.pauses) place_.pauses->open();
  place_.recorder.begin();
  std::vector<Task<>> tasks = strategy_.services();
  tasks.push_back(train());
  const auto on_error = [this](std::exception_ptr error) { strategy_.give_up(error); };
  Task<> together = all(place_.comm.runtime(), std::move(tasks), on_error);
  co_await std::move(together);
  co_await strategy_.finish();
}

Task<> Trainer::train() {
  const BrokenOff no_step;
  const Act begin_training = [this] { return strategy_.begin_training(); };
  co_await retake(begin_training, no_step);
  const std::uint32_t end = strategy_.epochs_end();
  bool is_complete = plan_.is_resumed();
  for (std::uint32_t epoch = plan_.first_epoch; epoch < end; ++epoch) {
    const std::uint32_t first = epoch == plan_.first_epoch ? plan_.first_step : 0, steps = strategy_.steps_in(epoch);
    const auto after = [&](std::uint32_t k) { return k + 1 < steps ? Point{epoch, k + 1} : Point{epoch + 1, 0}; };
    co_await pause({epoch, first}, after(first), is_complete);
    const Act begin = [this, epoch] { return strategy_.begin_epoch(epoch); };
    co_await retake(begin, no_step);
    bool goes_on = true;
    for (std::uint32_t k = first; k < steps && goes_on; ++k) {
      if (k > first) co_await pause({epoch, k}, after(k), strategy_.is_complete());
      if (place_.loop) goes_on = co_await place_.loop->has_next();
      if (goes_on) co_await take(step_at(epoch, k, steps));
    }
    if (!goes_on) {
      const Act end_loop = [this] { return strategy_.end_loop(); };
      co_await retake(end_loop, no_step);
      break;
    }
    co_await end_epoch(end_of(epoch));
    is_complete = strategy_.can_save_after(end_of(epoch));
  }
  if (place_.pauses && end > plan_.first_epoch) place_.pauses->leave();
  if (place_.regroup) {
    Task<> leaving = leave();
    co_await loss_in(std::move(leaving));  // if those have gone who could regroup, nobody needs this rank either
  }
  strategy_.trained();
}

/// Saves, or ends training, if all ranks do so here.
Task<> Trainer::pause(Point here, Point next, bool is_complete) {
  if (!place_.pauses) co_return;
  for (;;) {
    const auto wish = co_await place_.pauses->reach(here, next, is_complete);
    if (!wish) co_return;
    co_await strategy_.land();
    Task<> comparing = strategy_.compare(here);
    const std::exception_ptr loss = co_await loss_in(std::move(comparing));
    const BrokenOff no_step;
    if (loss) co_await recover(loss, no_step);  // it is not compared again: others may have done so, and gone on
    place_.pauses->save(here);
    if (wish->signal == 0) continue;
    co_await place_.pauses->all_have_saved();
    throw Stopped(wish->signal);
  }
}

Task<> Trainer::leave() {
  const BrokenOff no_step;
  const Act meet = [this] { return place_.comm.barrier(); };
  co_await retake(meet, no_step);
}

Task<> Trainer::take(TrainingStep step) {
  StepResult result;
  const Act attempt = [this, step, &result] { return strategy_.attempt(step, &result); };
  const BrokenOff this_step{.step = &step};
  const bool caught_up = co_await retake(attempt, this_step);
  if (!caught_up) strategy_.commit(step);
  place_.recorder.step({step.batch.epoch, step.number, result.loss, result.samples, step.rate, result.age});
}

Task<> Trainer::end_epoch(EpochEnd end) {
  observe::EpochRecord record{end.epoch, NAN, NAN, 0, NAN};
  const Act act = [this, end, &record] { return strategy_.end_epoch(end, &record); };
  const BrokenOff this_end{.record = &record};
  co_await retake(act, this_end);
  if (strategy_.records_epochs()) place_.recorder.epoch(record);
  if (place_.checkpoint && strategy_.can_save_after(end)) place_.checkpoint(end.epoch);
}

Task<bool> Trainer::retake(Act act, BrokenOff what) {
  std::exception_ptr loss;
  bool caught_up = false;
  do {
    Task<> once = act();
    loss = co_await loss_in(std::move(once));
    if (loss) caught_up = co_await recover(loss, what);
  } while (loss && !caught_up);
  if (strategy_.is_idle()) place_.recorder.commit();
  co_return caught_up;
}

Task<bool> Trainer::recover(std::exception_ptr loss, BrokenOff what) {
  bool caught_up = false;
  while (loss) {
    place_.comm.abort(loss);  // perhaps only a part of it has ended: ranks that wait in the whole are to stop, too
    const bool goes_on = place_.regroup && co_await regroup();
    if (!goes_on) std::rethrow_exception(loss);
    if (place_.goes_on_with) place_.goes_on_with(place_.comm);
    loss = co_await loss_in(recover_once(what, &caught_up));
  }
  co_return caught_up;
}

/// False: this rank is the lost one, or the transport cannot go on.
Task<bool> Trainer::regroup() {
  try {
    place_.comm = co_await place_.regroup(place_.comm);
  } catch (const Error& error) {
    if (error.loss() && error.loss()->how == Lost::left_out) throw;
    co_return false;
  }
  co_return true;
}

Task<> Trainer::recover_once(BrokenOff what, bool* caught_up) {
  strategy_.regrouped();
  *caught_up = co_await strategy_.recover(what);
  if (*caught_up) {
    place_.recorder.commit();
  } else {
    place_.recorder.dropped();
  }
}

TrainingStep Trainer::step_at(std::uint32_t epoch, std::uint32_t k, std::uint32_t steps) const {
  const std::uint32_t per_epoch = place_.learner.steps_per_epoch();
  const double epochs_done = epoch + static_cast<double>(k) / per_epoch;
  return {{epoch, k}, std::uint64_t{epoch} * per_epoch + k, learning_rate_.at(epochs_done), k + 1 == steps};
}

EpochEnd Trainer::end_of(std::uint32_t epoch) const {
  const bool last = epoch + 1 == strategy_.epochs_end();
  const std::uint64_t done = std::uint64_t{epoch} * place_.learner.steps_per_epoch() + strategy_.steps_in(epoch);
  const bool early = plan_.max_steps > 0 && done >= plan_.max_steps;
  return {epoch, last, early, plan_.evaluates_after(epoch, last)};
}

}  // namespace ripieno::strategy
