#include "ripieno/strategy/synchronous.h"

#include <cmath>

#include "ripieno/numeric/elementwise.h"
#include "ripieno/numeric/numbers.h"
#include "ripieno/strategy/alike.h"
#include "ripieno/strategy/slots.h"

namespace ripieno::strategy {
namespace {

class Synchronous : public Alike {
 public:
  Synchronous(const StrategyInfo& info, const Plan& plan, Workplace workplace)
      : Alike(info, plan, std::move(workplace)) {}

 protected:
  Task<> attempt(TrainingStep step, StepResult* result) override {
    const Weighting by_share = &BatchSize::share;
    co_await compute(step, by_share, result);  // 2
    co_await average_buckets(1);               // 3
  }

  Task<> compute(TrainingStep step, Weighting weighting, StepResult* result) {
    const auto pass = co_await place_.learner.begin(step.batch, std::move(weighting));
    static_cast<PassResult&>(*result) = co_await pass->finish();
  }

  Task<> average_buckets(double weight) {
    for (std::size_t i = 0; i < layout_.buckets.size(); ++i) {  // in the same order on all ranks
      const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::exchange, i);
      co_await average(i, weight / loss_scale());
    }
  }
};

/// Adds up the gradients of several passes, each weighted by its samples.
class Accumulate final : public Synchronous {
 public:
  Accumulate(const StrategyInfo& info, const Plan& plan, Workplace workplace)
      : Synchronous(info, plan, std::move(workplace)), sum_(layout_.parameters, layout_.type) {}

 private:
  Task<> attempt(TrainingStep step, StepResult* result) override {
    const Weighting by_samples = &BatchSize::samples;
    co_await compute(step, by_samples, result);
    newest_ = result->global_samples;
    if (!exchanges(step)) co_return;
    numeric::add(place_.learner.gradients(), sum_.span());
    co_await average_buckets(1 / (samples_ + newest_));
  }

  void commit(TrainingStep step) override {
    if (exchanges(step)) return Alike::commit(step);
    numeric::add(sum_.span(), place_.learner.gradients());
    samples_ += newest_;
    ++passes_;
    place_.learner.commit();
  }

  void settle() override {
    Alike::settle();
    sum_ = numeric::Numbers(layout_.parameters, layout_.type);
    samples_ = 0;
    passes_ = 0;
  }

  bool is_complete() const override { return passes_ == 0; }  // the sum is in no checkpoint

  bool exchanges(TrainingStep step) const override { return passes_ + 1 == plan_.passes || step.ends_epoch; }

  numeric::Numbers sum_;             // of the gradients since the last exchange
  double samples_ = 0, newest_ = 0;  // of all workers: since the last exchange, and in the latest pass
  int passes_ = 0;                   // since the last exchange
};

std::optional<std::uint64_t> bytes_of(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                      const Workload& work, int rank, std::uint64_t exchanges) {
  const auto averager = averager_of(info, plan, slots_of(layout, layout.buckets), layout.type);
  std::uint64_t one = 0;
  for (std::size_t i = 0; i < layout.buckets.size(); ++i) {
    const auto bytes = averager->bytes_sent(rank, work.world, i);
    if (!bytes) return std::nullopt;
    one += *bytes;
  }
  return one * exchanges * work.epochs;
}

/// Exchanges an epoch; the last one may carry fewer passes.
std::uint64_t exchanges(std::uint64_t steps, int passes) { return (steps + passes - 1) / passes; }

}  // namespace

std::unique_ptr<Strategy> make_synchronous(const StrategyInfo& info, const Plan& plan, Workplace workplace) {
  return std::make_unique<Synchronous>(info, plan, std::move(workplace));
}

std::unique_ptr<Strategy> make_accumulate(const StrategyInfo& info, const Plan& plan, Workplace workplace) {
  if (plan.passes == 1) return make_synchronous(info, plan, std::move(workplace));
  return std::make_unique<Accumulate>(info, plan, std::move(workplace));
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

}  // namespace ripieno::strategy
