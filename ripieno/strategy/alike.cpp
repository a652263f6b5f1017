#include "ripieno/strategy/alike.h"

#include <algorithm>

#include "ripieno/collective/execute.h"
#include "ripieno/core/async.h"
#include "ripieno/strategy/share_state.h"
#include "ripieno/strategy/slots.h"

namespace ripieno::strategy {

Task<> start_alike(collective::Communicator comm, Learner& learner) {
  const std::vector<NumberSpan> all{learner.parameters(), learner.frozen(), learner.buffers()};
  const std::vector<bool> alike = co_await are_alike(comm, all, observe::Purpose::setup);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (alike[i]) continue;
    const collective::ExecuteOptions options{all[i].type, observe::Purpose::setup};
    co_await collective::broadcast(comm, all[i], options);
  }
}

Alike::Alike(const StrategyInfo& info, const Plan& plan, Workplace workplace)
    : Strategy(plan, std::move(workplace)),
      layout_(place_.learner.layout()),
      averager_(averager_of(info, plan, slots_of(layout_, layout_.buckets), layout_.type)),
      optimiser_(workers_optimiser(plan, place_)) {}

/// Within an epoch each rank has statistics of its own, also where a run is resumed there.
Task<> Alike::start() {
  if (plan_.is_resumed()) co_await compare({plan_.first_epoch, plan_.first_step});
  if (plan_.first_step == 0) co_return co_await start_alike(place_.comm, place_.learner);
  const auto own = numeric::copy_of(place_.learner.buffers());
  co_await start_alike(place_.comm, place_.learner);
  numeric::convert(place_.learner.buffers(), own->span());
}

void Alike::visit(StateVisitor& visitor) {
  optimiser_->visit(visitor);
  averager_->visit(visitor);
}

Task<> Alike::compare(Point point) {
  std::vector<Held> held = held_by(place_.learner);
  held.pop_back();  // buffers are each rank's own within an epoch
  return compare_replicas(place_.comm, std::move(held), described(point));
}

Task<> Alike::average(std::size_t bucket, double weight) {
  const Range range = layout_.buckets[bucket];
  return averager_->average(place_.comm, bucket, place_.learner.gradients().slice(range.begin, range.end), weight);
}

void Alike::commit(TrainingStep step) {
  update(step);
  settle();
}

void Alike::settle() {
  for (std::size_t bucket = 0; bucket < layout_.buckets.size() && taken_; ++bucket) averager_->commit(bucket);
  place_.learner.commit();
  ++done_;
}

Task<> Alike::end_epoch(EpochEnd end, observe::EpochRecord* record) {
  const NumberSpan buffers = place_.learner.buffers();
  const auto own = numeric::copy_of(buffers);
  const std::exception_ptr error = co_await error_of(average_and_evaluate(end));
  if (error) {  // the buffers may hold partial sums
    numeric::convert(buffers, own->span());
    std::rethrow_exception(error);
  }
  record->accuracy = score_.accuracy;
  record->loss = score_.loss;
  record->parameters_hash = parameters_hash_;
  mean_ = numeric::copy_of(buffers);
  if (end.evaluates || buffers.count > 0 || !place_.loop) ++done_;  // there was an exchange
}

Task<> Alike::average_and_evaluate(EpochEnd end) {
  co_await average_buffers(place_.comm, place_.learner);
  Score score;
  if (end.evaluates) {
    const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::evaluate);
    score = co_await evaluate_together(place_.comm, place_.learner);
  }
  score_ = score;
  const std::vector<Held> held = held_by(place_.learner);
  parameters_hash_ = held[0].hash;
  if (!place_.loop) co_await compare_replicas(place_.comm, held, described({end.epoch + 1, 0}));
}

Task<bool> Alike::recover(BrokenOff what) {
  const std::vector<std::int64_t> done = co_await place_.comm.all_gather(done_);
  const auto ahead = std::max_element(done.begin(), done.end());
  const bool behind = done_ < *ahead;
  if (!behind) place_.learner.drop();
  if (*std::min_element(done.begin(), done.end()) == *ahead) co_return false;
  const BrokenOff nothing;
  const BrokenOff missed = behind ? what : nothing;
  co_await hand_over(static_cast<int>(ahead - done.begin()), missed);
  co_return behind;
}

/// All ranks receive the state, but only those that missed a commit take it.
Task<> Alike::hand_over(int from, BrokenOff missed) {
  Learner& learner = place_.learner;
  const auto mean = numeric::copy_of(mean_ ? mean_->span() : learner.buffers());
  Score score = score_;
  std::int64_t taken = taken_;
  const std::function<void(StateVisitor&)> shared = [&](StateVisitor& visitor) {
    visitor.span("parameters", learner.parameters());
    optimiser_->visit(visitor);
    averager_->visit_shared(visitor);
    if (learner.loss_scale()) learner.loss_scale()->visit(visitor);
    visitor.span("buffers", mean->span());
    visit_score(visitor, score);
    visitor.number("taken", taken);
  };
  co_await share_state(place_.comm, from, shared);
  if (missed.step) {
    taken_ = taken;
    settle();
  }
  if (!missed.record) co_return;
  numeric::convert(learner.buffers(), mean->span());
  mean_ = numeric::copy_of(mean->span());
  score_ = score;
  missed.record->accuracy = score.accuracy;
  missed.record->loss = score.loss;
  missed.record->parameters_hash = numeric::hash(learner.parameters());
  ++done_;
}

}  // namespace ripieno::strategy
