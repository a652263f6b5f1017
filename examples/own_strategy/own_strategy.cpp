#include "own_strategy.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "ripieno/core/numbers.h"
#include "ripieno/strategy/apart.h"
#include "ripieno/strategy/steps.h"
#include "ripieno/strategy/together.h"

namespace own {
namespace {

using namespace ripieno;

constexpr double beta = 0.9;
constexpr int in_a_pair = 2;

/// Of all parameters as one, between all workers.
std::unique_ptr<Averager> averager(const StrategyInfo& info, const Plan& plan, const Layout& layout) {
  return averager_of(info, plan, slots_of(layout, {{0, layout.parameters}}), layout.type);
}

/// The same, of gradients between the workers of a pair.
std::unique_ptr<Averager> pair_averager(const Layout& layout) {
  return make_averager({}, {Slot{layout.parameters}}, layout.type);
}

class Easgd final : public Strategy {
 public:
  Easgd(const StrategyInfo& info, const Plan& plan, Workplace workplace, const Layout& layout)
      : plan_(plan), place_(std::move(workplace)), averager_(averager(info, plan, layout)),
        pair_averager_(pair_averager(layout)),
        optimiser_(make_optimiser(plan.optimiser, layout.parameters, layout.type)),
        learning_rate_(plan.learning_rate, plan.epochs, plan.rate_scale), centre_(layout.parameters, layout.type),
        force_(layout.parameters, layout.type) {}

  Task<> run() override {
    co_await start_apart(place_.comm, &place_.learner, plan_.first_epoch > 0);  // 1
    if (plan_.first_epoch == 0) convert(centre_.span(), place_.learner.parameters());
    pair_ = co_await place_.comm.split(place_.comm.rank() / in_a_pair);
    place_.recorder.begin();
    for (Steps at(plan_, place_.learner.steps_per_epoch()); at.more(); at.next()) {
      const bool elastic = (at.step() + 1) % plan_.local.steps == 0;
      if (elastic) stretch();
      const double rate = learning_rate_.at(at.epochs_done());
      double of_pair = 0;                                                   // n_g
      const PassResult result = co_await step(at.batch(), rate, &of_pair);  // 2
      if (elastic) co_await pull(result, of_pair);                          // 3
      place_.recorder.step({at.epoch(), at.step(), result.loss, result.samples, rate, {}});
      if (!at.ends_epoch()) continue;
      co_await end_epoch(at.epoch(), at.ends());
      if (place_.checkpoint && !at.ends_early()) place_.checkpoint(at.epoch());
    }
  }

  NumberSpan consensus() override { return centre_.span(); }
  void visit(StateVisitor& visitor) override {
    optimiser_->visit(visitor);
    averager_->visit(visitor);
    visitor.span("easgd.centre", centre_.span());
  }

 private:
  /// force <- c - x_r
  void stretch() {
    convert(force_.span(), place_.learner.parameters());
    scale(force_.span(), -1);
    add(force_.span(), centre_.span());
  }

  Task<PassResult> step(BatchId batch, double rate, double* of_pair) {
    Learner& learner = place_.learner;
    const Weighting by_samples = &BatchSize::samples;
    const auto pass = co_await learner.begin(batch, by_samples);
    const PassResult result = co_await pass->finish();
    const std::vector<std::uint32_t> samples = co_await pair_->all_gather(result.samples);
    *of_pair = std::accumulate(samples.begin(), samples.end(), 0.0);
    const double weight = 1 / std::max(1.0, *of_pair);
    {
      const StageTimer timer(place_.recorder, place_.comm.runtime(), Stage::exchange);
      co_await pair_averager_->average(*pair_, 0, learner.gradients(), weight);
    }
    divide_by_loss_scale(learner);
    step_if_finite(place_, *optimiser_, rate);
    co_return result;
  }

  Task<> pull(PassResult result, double of_pair) {
    const StageTimer timer(place_.recorder, place_.comm.runtime(), Stage::exchange);
    const NumberSpan force = force_.span();
    scale(force, beta * of_pair / result.global_samples);
    add(place_.learner.parameters(), force);
    scale(force, result.samples / std::max(1.0, of_pair));
    co_await averager_->average(place_.comm, 0, force, -1);  // the sum of what pulls at the centre
    add(centre_.span(), force);
  }

  /// It is the centre that is evaluated.
  Task<> end_epoch(std::uint32_t epoch, bool last) {
    const NumberSpan parameters = place_.learner.parameters();
    const auto own = copy_of(parameters);
    convert(parameters, centre_.span());
    co_await end_epoch_alike(&place_, &plan_, epoch, last);
    convert(parameters, own->span());
  }

  Plan plan_;
  Workplace place_;
  std::unique_ptr<Averager> averager_, pair_averager_;
  std::optional<Communicator> pair_;  // from run() on
  std::unique_ptr<Optimiser> optimiser_;
  LearningRate learning_rate_;
  Numbers centre_, force_;
};

std::unique_ptr<Strategy> make(const StrategyInfo& info, const Plan& plan, Workplace workplace) {
  const Layout& layout = workplace.learner.layout();
  return std::make_unique<Easgd>(info, plan, std::move(workplace), layout);
}

std::optional<std::uint64_t> bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                        const Workload& work, int rank) {
  const int first = rank / in_a_pair * in_a_pair, of_pair = std::min(in_a_pair, work.world.ranks - first);
  const auto once = averager(info, plan, layout)->bytes_sent(rank, work.world, 0);
  const auto step = pair_averager(layout)->bytes_sent(rank - first, of_pair, 0);
  const std::uint64_t steps = work.steps.at(0), begin = plan.first_epoch * steps, end = begin + work.epochs * steps;
  if (!once || !step) return std::nullopt;
  return *step * (end - begin) + *once * (end / plan.local.steps - begin / plan.local.steps);
}

double rounds(const Plan& plan, double steps) { return steps + steps / plan.local.steps; }

}  // namespace

StrategyInfo easgd() {
  return {.name = "easgd",
          .title = "steps in pairs, which elastic forces to a centre hold together",
          .what = "gradients in pairs, differences from a centre",
          .when = "every step; after local steps",
          .route = "any",
          .exact = false,
          .agrees = false,
          .data = DataUse::shards_in_step,
          .has_servers = false,
          .make = make,
          .bytes_sent = bytes_sent,
          .rounds = rounds};
}

}  // namespace own
