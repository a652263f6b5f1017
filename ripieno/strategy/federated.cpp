#include "ripieno/strategy/federated.h"

#include <array>
#include <cmath>

#include "ripieno/collective/execute.h"
#include "ripieno/core/kernels.h"
#include "ripieno/strategy/together.h"

namespace ripieno {
namespace {

class Federated final : public Strategy {
 public:
  Federated(std::unique_ptr<Averager> averager, std::unique_ptr<Averager> exact, const Plan& plan, Workplace workplace)
      : plan_(plan),
        place_(std::move(workplace)),
        averager_(std::move(averager)),
        exact_(std::move(exact)),
        optimiser_(make_optimiser(plan.optimiser, place_.learner.layout().parameters, place_.learner.layout().type)),
        learning_rate_(plan.learning_rate, plan.epochs, plan.rate_scale) {}

  Task<> run() override {
    co_await start_alike(place_.group, place_.learner);  // 1
    place_.recorder.begin();
    weight_ = co_await share_of_samples();
    const std::uint32_t steps = place_.learner.steps_per_epoch();
    std::uint64_t step = std::uint64_t{plan_.first_epoch} * steps;
    for (std::uint32_t epoch = plan_.first_epoch; epoch < plan_.epochs; ++epoch) {
      // 2. Clients may differ in their steps, never in their rounds: the limit ends the steps, not the rounds.
      for (std::uint32_t k = 0; k < steps && (plan_.max_steps == 0 || step < plan_.max_steps); ++k, ++step) {
        co_await local_step(epoch, k, step);
      }
      if (epoch + 1 < plan_.epochs && (epoch + 1) % plan_.local_epochs != 0) {
        place_.recorder.epoch({epoch, NAN, NAN, hash(place_.learner.parameters())});
        continue;
      }
      co_await average();  // 3
      co_await end_round(epoch);
      if (place_.checkpoint && plan_.max_steps == 0) place_.checkpoint(epoch);
    }
  }

  FloatSpan consensus() override { return place_.learner.parameters(); }
  void visit(StateVisitor& visitor) override { optimiser_->visit(visitor); }

 private:
  /// This client's samples over all clients'.
  Task<double> share_of_samples() {
    std::array<double, 1> all{static_cast<double>(place_.learner.samples_per_epoch())};
    const ExecuteOptions options{DType::fp64, Purpose::setup};
    co_await all_reduce(find_route("reduce-broadcast"), place_.group, FloatSpan(std::span<double>(all)), options);
    co_return place_.learner.samples_per_epoch() / all[0];
  }

  Task<> local_step(std::uint32_t epoch, std::uint32_t k, std::uint64_t step) {
    Learner& learner = place_.learner;
    const double rate = learning_rate_.at(epoch + static_cast<double>(k) / learner.steps_per_epoch());
    const BatchId batch{epoch, k};
    const auto pass = co_await learner.begin(batch);
    const PassResult result = co_await pass->finish();
    {
      const StageTimer timer(place_.recorder, place_.group.runtime(), Stage::optimise);
      optimiser_->begin_step();
      optimiser_->update(0, learner.parameters(), learner.gradients(), rate);
    }
    place_.recorder.step({epoch, step, result.loss, result.samples, rate, {}});
  }

  Task<> average() {
    const StageTimer timer(place_.recorder, place_.group.runtime(), Stage::exchange);
    co_await averager_->average(place_.group, place_.learner.parameters(), weight_, 0);
    co_await exact_->average(place_.group, place_.learner.buffers(), weight_, 1);
  }

  Task<> end_round(std::uint32_t epoch) {
    EpochRecord record{epoch, NAN, NAN, hash(place_.learner.parameters())};
    if (epoch + 1 == plan_.epochs || (epoch + 1) % plan_.evaluate_every == 0) {
      const StageTimer timer(place_.recorder, place_.group.runtime(), Stage::evaluate);
      const Score score = co_await evaluate_together(place_.group, place_.learner);
      record.accuracy = score.accuracy;
      record.loss = score.loss;
    }
    place_.recorder.epoch(record);
  }

  Plan plan_;
  Workplace place_;
  std::unique_ptr<Averager> averager_;  // of the parameters
  std::unique_ptr<Averager> exact_;     // of the buffers: variances do not fit into fp16
  std::unique_ptr<Optimiser> optimiser_;
  LearningRate learning_rate_;
  double weight_ = 0;
};

std::unique_ptr<Averager> averager(const StrategyInfo& info, const Plan& plan, const std::string& wire) {
  return make_averager({std::string(info.route), wire, plan.segment_bytes});
}

}  // namespace

std::unique_ptr<Strategy> make_federated(const StrategyInfo& info, const Plan& plan, Workplace workplace) {
  return std::make_unique<Federated>(averager(info, plan, plan.wire), averager(info, plan, "auto"), plan, std::move(workplace));
}

std::optional<std::uint64_t> federated_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                  int rank, int ranks, const std::vector<std::uint32_t>&, std::uint32_t epochs) {
  const std::uint64_t rounds = (epochs + plan.local_epochs - 1) / plan.local_epochs;
  return rounds * (averager(info, plan, plan.wire)->bytes_sent(rank, ranks, layout.parameters, layout.type) +
                   averager(info, plan, "auto")->bytes_sent(rank, ranks, layout.buffers, layout.type));
}

}  // namespace ripieno
