#include "ripieno/strategy/synchronous.h"

#include <cmath>

#include "ripieno/core/kernels.h"
#include "ripieno/core/numbers.h"
#include "ripieno/strategy/steps.h"
#include "ripieno/strategy/together.h"

namespace ripieno {
namespace {

class Synchronous final : public Strategy {
 public:
  Synchronous(const StrategyInfo& info, const Plan& plan, int passes, Workplace workplace)
      : plan_(plan),
        passes_(passes),
        place_(std::move(workplace)),
        layout_(place_.learner.layout()),
        averager_(averager_of(info, plan, slots_of(layout_, layout_.buckets), layout_.type)),
        optimiser_(make_optimiser(plan.optimiser, layout_.parameters, layout_.type)),
        learning_rate_(plan.learning_rate, plan.epochs, plan.rate_scale) {
    if (passes_ > 1) sum_ = std::make_unique<Numbers>(layout_.parameters, layout_.type);
  }

  Task<> run() override {
    co_await start_alike(place_.comm, place_.learner);  // 1
    place_.recorder.begin();
    int passes = 0;
    double samples = 0;
    for (Steps at(plan_, place_.learner.steps_per_epoch()); at.more(); at.next()) {
      const double rate = learning_rate_.at(at.epochs_done());
      const PassResult result = co_await compute(at.batch());  // 2
      samples += result.global_samples;
      if (++passes == passes_ || at.ends_epoch()) {
        co_await exchange(samples);  // 3
        step_if_finite(place_, *optimiser_, rate);  // 4
        passes = 0;
        samples = 0;
      }
      place_.recorder.step({at.epoch(), at.step(), result.loss, result.samples, rate, {}});
      if (!at.ends_epoch()) continue;
      co_await end_epoch_alike(&place_, &plan_, at.epoch(), at.ends());
      if (place_.checkpoint && !at.ends_early()) place_.checkpoint(at.epoch());
    }
  }

  NumberSpan consensus() override { return place_.learner.parameters(); }
  void visit(StateVisitor& visitor) override {
    optimiser_->visit(visitor);
    averager_->visit(visitor);
  }

 private:
  /// Over several passes, the gradients' sums over samples are summed up.
  Task<PassResult> compute(BatchId batch) {
    Learner& learner = place_.learner;
    const Weighting weighting = sum_ ? Weighting(&BatchSize::samples) : Weighting(&BatchSize::share);
    const auto pass = co_await learner.begin(batch, weighting);
    const PassResult result = co_await pass->finish();
    if (sum_) add(sum_->span(), learner.gradients());
    co_return result;
  }

  /// `samples`: of all workers, since the last exchange.
  Task<> exchange(double samples) {
    const NumberSpan gradients = place_.learner.gradients();
    const double loss_scale = place_.learner.loss_scale() ? place_.learner.loss_scale()->value() : 1;
    const double weight = (sum_ ? 1 / samples : 1) / loss_scale;
    if (sum_) {
      convert(gradients, sum_->span());
      *sum_ = Numbers(layout_.parameters, layout_.type);
    }
    for (std::size_t i = 0; i < layout_.buckets.size(); ++i) {  // in the same order on all ranks
      const StageTimer timer(place_.recorder, place_.comm.runtime(), Stage::exchange, i);
      const Range bucket = layout_.buckets[i];
      co_await averager_->average(place_.comm, i, gradients.slice(bucket.begin, bucket.end), weight);
    }
  }

  Plan plan_;
  int passes_;
  Workplace place_;
  const Layout& layout_;
  std::unique_ptr<Averager> averager_;
  std::unique_ptr<Optimiser> optimiser_;
  LearningRate learning_rate_;
  std::unique_ptr<Numbers> sum_;  // accumulate: of the gradients since the last exchange
};

std::optional<std::uint64_t> bytes_of(const StrategyInfo& info, const Plan& plan, const Layout& layout, const Workload& work,
                                      int rank, std::uint64_t exchanges) {
  const auto averager = averager_of(info, plan, slots_of(layout, layout.buckets), layout.type);
  std::uint64_t one = 0;
  for (std::size_t i = 0; i < layout.buckets.size(); ++i) {
    const auto bytes = averager->bytes_sent(rank, work.world, i);
    if (!bytes) return std::nullopt;
    one += *bytes;
  }
  return one * exchanges * work.epochs;
}

/// Exchanges an epoch: what is left at its end is exchanged too.
std::uint64_t exchanges(std::uint64_t steps, int passes) { return (steps + passes - 1) / passes; }

}  // namespace

std::unique_ptr<Strategy> make_synchronous(const StrategyInfo& info, const Plan& plan, Workplace workplace) {
  return std::make_unique<Synchronous>(info, plan, info.name == "accumulate" ? plan.passes : 1, std::move(workplace));
}

std::optional<std::uint64_t> synchronous_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                    const Workload& work, int rank) {
  return bytes_of(info, plan, layout, work, rank, work.steps[0]);
}

double synchronous_rounds(const Plan&, double steps) { return steps; }

std::optional<std::uint64_t> accumulate_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                   const Workload& work, int rank) {
  return bytes_of(info, plan, layout, work, rank, exchanges(work.steps[0], plan.passes));
}

double accumulate_rounds(const Plan& plan, double steps) { return std::ceil(steps / plan.passes); }

}  // namespace ripieno
