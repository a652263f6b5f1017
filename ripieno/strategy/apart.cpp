#include "ripieno/strategy/apart.h"

#include <algorithm>

#include "ripieno/core/async.h"
#include "ripieno/strategy/alike.h"
#include "ripieno/strategy/share_state.h"

namespace ripieno::strategy {

Task<> start_apart(collective::Communicator comm, Learner* learner, bool resumed) {
  if (!resumed) {
    co_await start_alike(comm, *learner);
    co_return;
  }
  const auto parameters = numeric::copy_of(learner->parameters());
  const auto buffers = numeric::copy_of(learner->buffers());
  co_await start_alike(comm, *learner);
  numeric::convert(learner->parameters(), parameters->span());
  numeric::convert(learner->buffers(), buffers->span());
}

Apart::Apart(const Plan& plan, Workplace workplace)
    : Strategy(plan, std::move(workplace)),
      own_steps_(plan, place_),
      consensus_(place_.learner.layout().parameters, place_.learner.layout().type),
      consensus_buffers_(place_.learner.layout().buffers, place_.learner.layout().type) {}

Task<> Apart::start() {
  co_await start_apart(place_.comm, &place_.learner, plan_.is_resumed());
  numeric::convert(consensus_.span(), place_.learner.parameters());
  numeric::convert(consensus_buffers_.span(), place_.learner.buffers());
}

Task<> Apart::end_epoch(EpochEnd end, observe::EpochRecord* record) {
  Learner& learner = place_.learner;
  record->parameters_hash = numeric::hash(learner.parameters());
  Score score;
  if (end.evaluates) {
    const auto parameters = numeric::copy_of(learner.parameters()), buffers = numeric::copy_of(learner.buffers());
    const std::exception_ptr error = co_await error_of(evaluate(record));
    numeric::convert(learner.parameters(), parameters->span());
    numeric::convert(learner.buffers(), buffers->span());
    if (error) std::rethrow_exception(error);
    score = {record->accuracy, record->loss};
  } else if (place_.loop) {  // which evaluates by itself, and wants the statistics
    co_await average_buffers(place_.comm, learner);
  }
  const bool compares = !place_.loop && (end.evaluates || agreed().count > 0);
  if (compares) co_await compare_at(end);
  if (end.evaluates || compares) ++done_;  // there was an exchange
  score_ = score;
}

std::vector<Held> Apart::held_alike() {
  std::vector<Held> held{{"frozen parameters", numeric::hash(place_.learner.frozen())}};
  if (agreed().count > 0) held.push_back({"agreed weights", numeric::hash(agreed())});
  return held;
}

Task<> Apart::compare(Point point) { return compare_replicas(place_.comm, held_alike(), described(point)); }

Task<> Apart::compare_at(EpochEnd end) {
  std::vector<Held> held = held_alike();
  if (end.evaluates) {
    held.push_back({"means of all parameters", numeric::hash(consensus_.span())});
    held.push_back({"means of all buffers", numeric::hash(consensus_buffers_.span())});
  }
  co_await compare_replicas(place_.comm, held, described({end.epoch + 1, 0}));
}

Task<> Apart::evaluate(observe::EpochRecord* record) {
  Learner& learner = place_.learner;
  const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::evaluate);
  const Evaluation lone = co_await learner.evaluate(0, 1);
  record->own_accuracy = lone.correct / lone.samples;
  co_await average_all();
  const Score score = co_await evaluate_together(place_.comm, learner);
  keep_consensus();
  record->accuracy = score.accuracy;
  record->loss = score.loss;
}

/// The learner then holds the consensus.
Task<> Apart::average_all() {
  Learner& learner = place_.learner;
  co_await average_buffers(place_.comm, learner);
  const std::vector<NumberSpan> own{learner.parameters()};
  const std::vector<bool> alike = co_await are_alike(place_.comm, own, observe::Purpose::evaluate);
  if (!alike[0]) {
    weigh(learner.parameters());
    co_await sum_up(place_.comm, learner.parameters());
  }
}

void Apart::keep_consensus() {
  numeric::convert(consensus_.span(), place_.learner.parameters());
  numeric::convert(consensus_buffers_.span(), place_.learner.buffers());
}

Task<> Apart::end_loop() {
  co_await average_all();
  keep_consensus();
}

Task<> Apart::conclude() {
  Learner& learner = place_.learner;
  const auto parameters = numeric::copy_of(learner.parameters()), buffers = numeric::copy_of(learner.buffers());
  co_await average_all();
  keep_consensus();
  numeric::convert(learner.parameters(), parameters->span());
  numeric::convert(learner.buffers(), buffers->span());
}

Task<bool> Apart::recover(BrokenOff what) {
  struct Progress {
    std::int64_t done;
    std::int64_t ends_epoch;
  };
  place_.learner.drop();
  const Progress mine{done_, what.record != nullptr};
  const std::vector<Progress> all = co_await place_.comm.all_gather(mine);
  const auto less = [](const Progress& a, const Progress& b) { return a.done < b.done; };
  const auto ahead = std::max_element(all.begin(), all.end(), less),
             last = std::min_element(all.begin(), all.end(), less);
  if (last->done == ahead->done) co_return false;
  const bool behind = done_ < ahead->done;
  const int from = static_cast<int>(ahead - all.begin());
  if (last->ends_epoch) {
    const BrokenOff nothing;
    const BrokenOff missed = behind ? what : nothing;
    co_await hand_over_epoch(from, missed);
    co_return behind;
  }
  co_return co_await hand_over(from, behind, what);
}

Task<> Apart::hand_over_epoch(int from, BrokenOff missed) {
  Score score = score_;
  const auto parameters = numeric::copy_of(consensus_.span()), buffers = numeric::copy_of(consensus_buffers_.span());
  const std::function<void(StateVisitor&)> shared = [&](StateVisitor& visitor) {
    visitor.span("consensus", parameters->span());
    visitor.span("buffers", buffers->span());
    visit_score(visitor, score);
  };
  co_await share_state(place_.comm, from, shared);
  if (!missed.record) co_return;
  numeric::convert(consensus_.span(), parameters->span());
  numeric::convert(consensus_buffers_.span(), buffers->span());
  score_ = score;
  missed.record->accuracy = score.accuracy;
  missed.record->loss = score.loss;
  ++done_;
}

}  // namespace ripieno::strategy
