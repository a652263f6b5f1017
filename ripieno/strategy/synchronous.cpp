#include "ripieno/strategy/synchronous.h"

#include <cmath>

#include "ripieno/core/kernels.h"
#include "ripieno/strategy/together.h"

namespace ripieno {
namespace {

class Synchronous final : public Strategy {
 public:
  Synchronous(std::unique_ptr<Averager> averager, const Plan& plan, Workplace workplace)
      : plan_(plan),
        place_(std::move(workplace)),
        averager_(std::move(averager)),
        optimiser_(make_optimiser(plan.optimiser, place_.learner.layout().parameters, place_.learner.layout().type)),
        learning_rate_(plan.learning_rate, plan.epochs, plan.rate_scale) {}

  Task<> run() override {
    Learner& learner = place_.learner;
    co_await start_alike(place_.group, learner);  // 1
    place_.recorder.begin();
    const std::uint32_t steps = learner.steps_per_epoch();
    std::uint64_t step = std::uint64_t{plan_.first_epoch} * steps;
    bool ended = false;
    for (std::uint32_t epoch = plan_.first_epoch; epoch < plan_.epochs && !ended; ++epoch) {
      for (std::uint32_t k = 0; k < steps && !ended; ++k, ++step) {
        const double rate = learning_rate_.at(epoch + static_cast<double>(k) / steps);
        const BatchId batch{epoch, k};
        const PassResult result = co_await take_step(batch, rate);
        place_.recorder.step({epoch, step, result.loss, result.samples, rate, {}});
        ended = plan_.max_steps > 0 && step + 1 >= plan_.max_steps;
      }
      co_await end_epoch(epoch, ended || epoch + 1 == plan_.epochs);
      if (place_.checkpoint && !ended) place_.checkpoint(epoch);
    }
  }

  FloatSpan consensus() override { return place_.learner.parameters(); }
  void visit(StateVisitor& visitor) override { optimiser_->visit(visitor); }

 private:
  Task<PassResult> take_step(BatchId batch, double rate) {
    Learner& learner = place_.learner;
    Runtime& runtime = place_.group.runtime();
    const auto pass = co_await learner.begin(batch);  // 2
    const PassResult result = co_await pass->finish();
    {
      const StageTimer timer(place_.recorder, runtime, Stage::exchange);
      const double weight = static_cast<double>(result.samples) / result.global_samples;
      std::uint32_t channel = 0;
      for (const Range bucket : learner.layout().buckets) {  // 3: in the same order on all ranks
        const FloatSpan gradient = learner.gradients().slice(bucket.begin, bucket.end);
        co_await averager_->average(place_.group, gradient, weight, channel++);
      }
    }
    const StageTimer timer(place_.recorder, runtime, Stage::optimise);
    optimiser_->begin_step();
    optimiser_->update(0, learner.parameters(), learner.gradients(), rate);  // 4
    co_return result;
  }

  Task<> end_epoch(std::uint32_t epoch, bool last) {
    EpochRecord record{epoch, NAN, NAN, 0};
    co_await average_buffers(place_.group, place_.learner);
    if (last || (plan_.evaluate_every > 0 && (epoch + 1) % plan_.evaluate_every == 0)) {
      const StageTimer timer(place_.recorder, place_.group.runtime(), Stage::evaluate);
      const Score score = co_await evaluate_together(place_.group, place_.learner);
      record.accuracy = score.accuracy;
      record.loss = score.loss;
    }
    record.parameters_hash = hash(place_.learner.parameters());
    place_.recorder.epoch(record);
  }

  Plan plan_;
  Workplace place_;
  std::unique_ptr<Averager> averager_;
  std::unique_ptr<Optimiser> optimiser_;
  LearningRate learning_rate_;
};

std::unique_ptr<Averager> averager(const StrategyInfo& info, const Plan& plan) {
  return make_averager({std::string(info.route), plan.wire, plan.segment_bytes});
}

}  // namespace

std::unique_ptr<Strategy> make_synchronous(const StrategyInfo& info, const Plan& plan, Workplace workplace) {
  return std::make_unique<Synchronous>(averager(info, plan), plan, std::move(workplace));
}

std::optional<std::uint64_t> synchronous_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                    int rank, int ranks, const std::vector<std::uint32_t>& steps, std::uint32_t epochs) {
  std::uint64_t a_step = 0;
  for (const Range bucket : layout.buckets) {
    a_step += averager(info, plan)->bytes_sent(rank, ranks, bucket.size(), layout.type);
  }
  return a_step * steps[0] * epochs;
}

}  // namespace ripieno
