#include "ripieno/strategy/server_shard.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "ripieno/numeric/elementwise.h"

namespace ripieno::strategy {

std::int64_t steps_in_all(const Plan& plan, std::uint32_t per_epoch) {
  const auto first = static_cast<std::int64_t>(plan.first_epoch) * per_epoch;
  auto end = static_cast<std::int64_t>(plan.epochs) * per_epoch;
  if (plan.max_steps > 0) end = static_cast<std::int64_t>(std::min(static_cast<std::uint64_t>(end), plan.max_steps));
  return std::max<std::int64_t>(0, end - first);
}

ServerShard::ServerShard(const Plan& plan, Pace pace, std::size_t numbers, std::size_t buffers, DType type,
                         Workplace& place)
    : plan_(plan),
      pace_(pace),
      runtime_(place.comm.runtime()),
      recorder_(place.recorder),
      loop_(place.loop),
      weights_(numbers, type, numeric::memory_like(place.learner.parameters())),
      buffers_(buffers, type, numeric::memory_like(place.learner.parameters())),
      optimiser_(optim::make_optimiser(plan.optimiser, numbers, type)),
      learning_rate_(plan.learning_rate, plan.epochs, plan.rate_scale),
      sum_(pace == Pace::together ? numbers : 0, type, numeric::memory_like(place.learner.parameters())),
      round_(std::make_shared<Event>(runtime_)),
      answered_(std::make_shared<Event>(runtime_)),
      snapshots_(runtime_) {}

void ServerShard::begin(const WorkersWork& work, bool records) {
  records_ = records;
  const std::size_t workers = work.steps.size();
  for (const std::uint32_t steps : work.steps) {
    begins_.push_back(static_cast<std::int64_t>(plan_.first_epoch) * steps);
    totals_.push_back(steps_in_all(plan_, steps));
  }
  answers_.resize(workers);
  clocks_.assign(workers, 0);
  pulled_.assign(workers, pace_ == Pace::own ? version_ : 0);
  waiting_.resize(workers);
  arrived_.resize(workers);
  per_epoch_ = pace_ == Pace::together ? work.steps[0] : std::accumulate(work.samples.begin(), work.samples.end(), 0.0);
  require(per_epoch_ > 0, "a parameter server whose workers have nothing to learn from");
  done_ = plan_.first_epoch * per_epoch_;
  epochs_seen_ = plan_.first_epoch;
  end_where_all_have();
}

Task<ShardAnswer> ServerShard::exchange(int worker, Push push, NumberSpan gradient, NumberSpan buffers,
                                        NumberSpan weights) {
  const Arrival arrival{push, gradient, buffers};
  ShardAnswer& answer = answers_[worker];
  const std::int64_t next = begins_[worker] + clocks_[worker];
  if (push.step != next && push.step != next - 1) {
    fail(ErrorKind::mismatch, "worker ", worker, " pushes step ", push.step, " to a shard that has its steps before ",
         next);
  }
  const bool is_new = push.step == next;
  if (is_new && pace_ == Pace::together) answer.applied = co_await meet(worker, arrival);
  if (is_new && pace_ != Pace::together) answer = apply(worker, arrival);
  if (pace_ != Pace::together) {
    co_await wait_turn(worker);
    pulled_[worker] = pace_ == Pace::own ? version_ : lead(worker);
  }
  numeric::convert(weights, weights_.span());
  co_return answer;
}

/// The call of the round's last worker makes the update; nothing changes then until all have pushed again.
Task<std::uint64_t> ServerShard::meet(int worker, Arrival arrival) {
  if (error_) std::rethrow_exception(error_);
  arrived_[worker] = arrival;
  const auto round = round_;
  const bool is_last = ++arrivals_ == static_cast<int>(arrived_.size());
  if (is_last) end_round();  // of which an interruption may have kept answers from being counted
  if (is_last && before_update) co_await before_update();
  if (!is_last || round != round_) {  // the round may have been interrupted meanwhile
    co_await round->wait();
  } else {
    arrivals_ = 0;
    average_arrivals();
    std::exchange(round_, std::make_shared<Event>(runtime_))->set();
  }
  co_return round_applied_;
}

void ServerShard::average_arrivals() {
  Push all{.loss = 0, .samples = 0, .finite = 1};
  for (const Arrival& one : arrived_) {
    all.samples += one.push.samples;
    all.finite &= one.push.finite;
    if (one.push.samples > 0) all.loss += one.push.loss * static_cast<double>(one.push.samples);
  }
  all.loss /= static_cast<double>(all.samples);
  for (std::size_t i = 0; i < arrived_.size(); ++i) {  // in worker order: the same bits every time
    const auto take = i == 0 ? numeric::convert : numeric::add;
    const double samples = arrived_[i].push.samples, workers = static_cast<double>(arrived_.size());
    const auto buffers = numeric::copy_of(arrived_[i].buffers);  // they may be the learner's own
    numeric::scale(buffers->span(), all.samples > 0 ? samples / all.samples : 1 / workers);
    take(sum_.span(), arrived_[i].gradient);
    take(buffers_.span(), buffers->span());
  }
  for (std::int64_t& clock : clocks_) ++clock;
  round_applied_ = all.finite;
  all.step = arrived_[0].push.step;
  for (std::size_t i = 0; i < arrived_.size(); ++i) owed_.insert(static_cast<int>(i));
  const double rate = update(static_cast<int>(arrived_.size()) - 1, all, sum_.span());
  record(all, rate, {});
  advance(1);
  end_where_all_have();
}

/// Makes one update; nothing else runs meanwhile.
ShardAnswer ServerShard::apply(int worker, const Arrival& arrival) {
  const ShardAnswer answer{pace_ == Pace::own ? version_ - pulled_[worker] : pulled_[worker], arrival.push.finite};
  numeric::convert(buffers_.span(), arrival.buffers);
  const double rate = update(worker, arrival.push, arrival.gradient);
  record(arrival.push, rate, answer.age);
  ++clocks_[worker];
  advance(static_cast<double>(arrival.push.samples));
  end_where_all_have();
  wake_waiting();
  return answer;
}

void ServerShard::wake_waiting() {
  for (std::size_t other = 0; other < waiting_.size(); ++other) {
    if (waiting_[other] && lead(static_cast<int>(other)) <= plan_.servers.staleness) {
      std::exchange(waiting_[other], nullptr)->set();
    }
  }
}

void ServerShard::answered(int worker) {
  if (owed_.erase(worker) > 0 && owed_.empty()) end_round();
}

void ServerShard::end_round() {
  owed_.clear();
  std::exchange(answered_, std::make_shared<Event>(runtime_))->set();
  if (const auto epoch = std::exchange(ended_epoch_, std::nullopt); epoch && on_epoch) on_epoch(*epoch);
}

Task<> ServerShard::all_answered() {
  const auto answered = answered_;
  if (!owed_.empty()) co_await answered->wait();
}

void ServerShard::end_worker(int worker) {
  totals_[worker] = clocks_[worker];
  end_where_all_have();
  wake_waiting();
}

Task<> ServerShard::wait_turn(int worker) {
  if (pace_ != Pace::bounded || has_ended(worker) || lead(worker) <= plan_.servers.staleness) co_return;
  if (error_) std::rethrow_exception(error_);
  const auto event = std::make_shared<Event>(runtime_);
  waiting_[worker] = event;
  co_await event->wait();
}

/// How many clocks a worker is ahead of the slowest other worker that has not ended; 0 for the slowest.
std::int64_t ServerShard::lead(int worker) const {
  std::int64_t slowest = clocks_[worker];
  for (std::size_t other = 0; other < clocks_.size(); ++other) {
    if (!has_ended(static_cast<int>(other))) slowest = std::min(slowest, clocks_[other]);
  }
  return clocks_[worker] - slowest;
}

double ServerShard::update(int worker, const Push& push, NumberSpan gradient) {
  const double rate = loop_ ? loop_->rate() : learning_rate_.at(done_ / per_epoch_);
  if (push.finite == 0) return rate;
  if (on_applied) on_applied({worker, push.step, gradient, rate});
  const observe::StageTimer timer(recorder_, runtime_, observe::Stage::optimise);
  optimiser_->begin_step();
  optimiser_->update(0, weights_.span(), gradient, rate);
  ++version_;
  return rate;
}

void ServerShard::record(const Push& push, double rate, std::optional<std::int64_t> age) {
  const auto step = static_cast<std::uint64_t>(steps_++);
  if (!records_) return;
  const auto epoch = static_cast<std::uint32_t>(done_ / per_epoch_);
  recorder_.step({epoch, step, push.loss, push.samples, rate, age});
}

void ServerShard::advance(double by) {
  done_ += by;
  while (done_ >= (epochs_seen_ + 1) * per_epoch_) {
    const std::uint32_t epoch = epochs_seen_++;
    if (plan_.evaluates_after(epoch, epoch + 1 == plan_.epochs)) snapshot(epoch);
    ended_epoch_ = epoch;
  }
}

void ServerShard::snapshot(std::uint32_t epoch) {
  snapshots_.push({epoch, numeric::copy_of(weights_.span()), numeric::copy_of(buffers_.span())});
  snapshot_at_ = done_;
}

void ServerShard::end_where_all_have() {
  if (clocks_ != totals_) return;
  const double epochs = std::ceil(done_ / per_epoch_);  // epochs begun
  // The end is always evaluated.
  if (snapshot_at_ != done_) snapshot(epochs > 0 ? static_cast<std::uint32_t>(epochs) - 1 : 0);
  snapshots_.push({});
}

void ServerShard::interrupt(std::exception_ptr error) {
  arrivals_ = 0;
  std::exchange(round_, std::make_shared<Event>(runtime_))->fail(error);
  std::exchange(answered_, std::make_shared<Event>(runtime_))->fail(error);
  for (auto& event : waiting_) {
    if (event) std::exchange(event, nullptr)->fail(error);
  }
}

void ServerShard::give_up(std::exception_ptr error) {
  error_ = error;
  interrupt(error);
  snapshots_.push({});
}

void ServerShard::visit(StateVisitor& visitor) {
  visitor.span("ps.weights", weights_.span());
  if (buffers_.span().count > 0) visitor.span("ps.buffers", buffers_.span());
  visitor.number("ps.version", version_);
  visitor.number("ps.steps", steps_);
  optimiser_->visit(visitor);
}

}  // namespace ripieno::strategy
