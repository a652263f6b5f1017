#include "ripieno/testing/trial.h"

#include <algorithm>
#include <cmath>

namespace ripieno::testing {

LinearOptions share_of(const strategy::StrategyInfo& info, const strategy::Plan& plan, int workers, int rank,
                       LinearOptions learner, std::uint32_t global_batch) {
  const bool divided = info.data == strategy::DataUse::global_batches;
  learner.sampler.workers = workers;
  learner.sampler.worker = std::max(0, info.worker(plan, rank));
  learner.sampler.partition = divided                                  ? data::Partition::global_batches
                              : info.data == strategy::DataUse::shards ? data::Partition::shards
                                                                       : data::Partition::shards_in_step;
  learner.sampler.batch = divided ? global_batch : std::max(1u, global_batch / workers);
  return learner;
}

Trial::Trial(const strategy::StrategyInfo& info, int workers, strategy::Plan plan, LinearOptions learner,
             std::uint32_t global_batch, transport::SimulatedOptions network)
    : info(info), plan(plan), workers(workers), cluster(info.ranks(plan, workers), network) {
  for (int rank = 0; rank < cluster.size(); ++rank) {
    options.push_back(share_of(info, plan, workers, rank, learner, global_batch));
  }
}

void Trial::make() {
  for (int rank = 0; rank < cluster.size(); ++rank) {
    learners.push_back(std::make_unique<LinearLearner>(cluster.runtime(), options[rank]));
    recorders.push_back(std::make_unique<observe::Recorder>(cluster.runtime(), &cluster.ledger(rank), nullptr));
    const std::uint64_t steps = std::uint64_t{this->plan.epochs} * learners[rank]->steps_per_epoch();
    recorders[rank]->on_step = [this, rank, steps](const observe::StepRecord& record) {
      if (interruptions && this->info.has_servers && record.step + 1 == steps) interruptions->has_trained(rank);
      if (on_step) on_step(rank, record);
    };
    recorders[rank]->on_epoch = [this, rank](const observe::EpochRecord& record) {
      if (interruptions && !this->info.has_servers && record.epoch + 1 == this->plan.epochs)
        interruptions->has_trained(rank);
    };
    std::function<void(std::uint32_t)> at_epochs;
    if (checkpoint) at_epochs = [this, rank](std::uint32_t epoch) { checkpoint(rank, epoch); };
    const collective::Communicator comm = cluster.comm(rank).on_nodes(per_node);
    strategy::Workplace place{comm, *learners[rank], *recorders[rank], at_epochs, nullptr};
    if (interruptions) interruptions->let(rank, place);
    if (save) {
      const auto save_here = [this, rank](strategy::Point point) { save(rank, point); };
      const strategy::Point first{this->plan.first_epoch, this->plan.first_step};
      pauses.push_back(std::make_unique<strategy::Pauses>(comm, first, save_here));
      place.pauses = pauses.back().get();
      if (!interruptions) place.goes_on_with = [its = place.pauses](const auto& alive) { its->go_on_with(alive); };
    }
    if (interruptions && info.worker(plan, rank) < 0) interruptions->has_trained(rank);
    strategies.push_back(strategy::make_strategy(info, plan, std::move(place)));
  }
}

void Trial::interrupt(std::uint64_t seed, int times, const Trial& whole) {
  Duration begun{0};
  for (const auto& recorder : whole.recorders) begun = std::max(begun, recorder->began());
  interruptions.emplace(cluster).schedule(seed, times, begun, whole.took);
}

void Trial::walk(int rank, SavedState& state, bool restoring) {
  state.begin(restoring);
  state.span("learner.parameters", learners[rank]->parameters());
  state.span("learner.buffers", learners[rank]->buffers());
  learners[rank]->visit(state);
  strategies[rank]->visit(state);
}

SavedState Trial::state(int rank) {
  SavedState state;
  walk(rank, state, false);
  return state;
}

void Trial::run() {
  if (strategies.empty()) make();
  took = cluster.run_mortal([&](collective::Communicator comm) { return strategies[comm.rank()]->run(); });
}

std::vector<double> Trial::weights(int rank) {
  const auto span = strategies[rank]->consensus().as<double>();
  return {span.begin(), span.end()};
}

strategy::Workload Trial::workload() const {
  return {collective::World(cluster.size(), per_node), learners.back()->sampler().steps_of_all(),
          plan.epochs - plan.first_epoch};
}

std::vector<double> train_alone(const strategy::Plan& plan, LinearOptions learner, std::uint32_t batch) {
  Trial trial(strategy::find_strategy("single"), 1, plan, learner, batch);
  trial.run();
  return trial.weights();
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0;
  for (std::size_t i = 0; i < a.size(); ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(square);
}

}  // namespace ripieno::testing
