#include "own_strategy.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "ripieno/numeric/numbers.h"
#include "ripieno/strategy/apart.h"
#include "ripieno/strategy/evaluate.h"
#include "ripieno/strategy/optimiser_step.h"
#include "ripieno/strategy/slots.h"

namespace own {
namespace {

using namespace ripieno;
using namespace ripieno::strategy;

constexpr double beta = 0.9;
constexpr int in_a_pair = 2;

/// Of all parameters as one, between all workers.
std::unique_ptr<collective::Averager> averager(const StrategyInfo& info, const Plan& plan, const Layout& layout) {
  return averager_of(info, plan, slots_of(layout, {{0, layout.parameters}}), layout.type);
}

/// The same, of gradients between the workers of a pair.
std::unique_ptr<collective::Averager> pair_averager(const Layout& layout) {
  return collective::make_averager({}, {collective::Slot{layout.parameters}}, layout.type);
}

class Easgd final : public Strategy {
 public:
  Easgd(const StrategyInfo& info, const Plan& plan, Workplace workplace, const Layout& layout)
      : Strategy(plan, std::move(workplace)),
        averager_(averager(info, plan, layout)),
        pair_averager_(pair_averager(layout)),
        optimiser_(optim::make_optimiser(plan.optimiser, layout.parameters, layout.type)),
        centre_(layout.parameters, layout.type),
        force_(layout.parameters, layout.type),
        pull_(layout.parameters, layout.type) {}

  NumberSpan consensus() override { return centre_.span(); }
  void visit(StateVisitor& visitor) override {
    optimiser_->visit(visitor);
    averager_->visit(visitor);
    visitor.span("easgd.centre", centre_.span());
  }

 private:
  Task<> start() override {
    co_await start_apart(place_.comm, &place_.learner, plan_.first_epoch > 0);  // 1
    if (plan_.first_epoch == 0) numeric::convert(centre_.span(), place_.learner.parameters());
    pair_ = co_await place_.comm.split(place_.comm.rank() / in_a_pair);
  }

  bool is_elastic(TrainingStep step) const { return (step.number + 1) % plan_.local.steps == 0; }

  Task<> attempt(TrainingStep step, StepResult* result) override {
    double of_pair = 0;  // n_g
    co_await compute(step, result, &of_pair);
    if (is_elastic(step)) co_await stretch(*result, of_pair);
  }

  void commit(TrainingStep step) override {
    step_if_finite(place_, *optimiser_, step.rate);  // 2
    pair_averager_->commit(0);
    place_.learner.commit();
    if (!is_elastic(step)) return;
    numeric::add(place_.learner.parameters(), pull_.span());  // 3
    numeric::add(centre_.span(), force_.span());
    averager_->commit(0);
  }

  /// 2, up to the optimiser's step.
  Task<> compute(TrainingStep step, StepResult* result, double* of_pair) {
    Learner& learner = place_.learner;
    const Weighting by_samples = &BatchSize::samples;
    const auto pass = co_await learner.begin(step.batch, by_samples);
    static_cast<PassResult&>(*result) = co_await pass->finish();
    const std::vector<std::uint32_t> samples = co_await pair_->all_gather(result->samples);
    *of_pair = std::accumulate(samples.begin(), samples.end(), 0.0);
    const double weight = 1 / std::max(1.0, *of_pair);
    {
      const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::exchange);
      co_await pair_averager_->average(*pair_, 0, learner.gradients(), weight);
    }
    divide_by_loss_scale(learner);
  }

  /// 3: what pulls at the worker, and the sum of what pulls at the centre.
  Task<> stretch(PassResult result, double of_pair) {
    const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::exchange);
    const NumberSpan force = force_.span();
    numeric::subtract(force, centre_.span(), place_.learner.parameters());
    numeric::scale(force, beta * of_pair / result.global_samples);
    numeric::convert(pull_.span(), force);
    numeric::scale(force, result.samples / std::max(1.0, of_pair));
    co_await averager_->average(place_.comm, 0, force, -1);
  }

  /// It is the centre that is evaluated.
  Task<> end_epoch(EpochEnd end, observe::EpochRecord* record) override {
    const NumberSpan parameters = place_.learner.parameters();
    const auto own = numeric::copy_of(parameters);
    numeric::convert(parameters, centre_.span());
    co_await average_buffers(place_.comm, place_.learner);
    if (end.evaluates) {
      const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::evaluate);
      const Score score = co_await evaluate_together(place_.comm, place_.learner);
      record->accuracy = score.accuracy;
      record->loss = score.loss;
    }
    record->parameters_hash = numeric::hash(parameters);
    numeric::convert(parameters, own->span());
  }

  std::unique_ptr<collective::Averager> averager_, pair_averager_;
  std::optional<collective::Communicator> pair_;  // from start() on
  std::unique_ptr<optim::Optimiser> optimiser_;
  numeric::Numbers centre_, force_, pull_;
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
