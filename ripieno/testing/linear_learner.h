// A learner without LibTorch: linear regression in double precision on synthetic data, y = sum of x_j (j - 3). Exact
// enough to compare the weights of P workers with those of one, and fast enough for thousands of steps in virtual time;
// it also works in real time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ripieno/data/sampler.h"
#include "ripieno/strategy/learner.h"
#include "ripieno/strategy/pass_progress.h"

namespace ripieno::testing {

struct LinearOptions {
  std::uint32_t samples = 103;
  std::size_t features = 13;
  std::size_t buffers = 0;     ///< they begin as 1 + the worker's index
  bool running_means = false;  ///< each pass changes the buffers like batch norm's running statistics; else none does
  double dropout = 0;  ///< the part of the features that a pass sets to 0, drawn for (seed, epoch, step, worker)
  std::size_t bucket_elements = 5;
  double first_weight = 0;  ///< the first value of every weight
  data::SamplerOptions sampler;
  Duration sample_cost{0};                           ///< charged for each sample of a pass
  std::function<Duration(data::BatchId)> cost = {};  ///< charged for a pass in addition
  bool loss_scale = false;                           ///< uses a loss scale and a format that overflows
  bool leave_out = false;                            ///< a planted fault: drops this worker's gradient
};

class LinearLearner final : public strategy::Learner {
 public:
  LinearLearner(Runtime& runtime, LinearOptions options);

  const strategy::Layout& layout() const override { return layout_; }
  NumberSpan parameters() override { return NumberSpan(weights_); }
  NumberSpan gradients() override { return NumberSpan(gradients_); }
  NumberSpan buffers() override { return NumberSpan(buffers_); }
  std::uint32_t steps_per_epoch() const override { return sampler_.steps(); }
  std::uint32_t samples_per_epoch() const override { return sampler_.samples(); }
  double own_samples() const override {
    return sampler_.samples_of_all()[static_cast<std::size_t>(options_.sampler.worker)];
  }
  Gates& gates() override { return gates_; }
  optim::LossScale* loss_scale() override { return loss_scale_ ? &*loss_scale_ : nullptr; }
  Task<std::unique_ptr<strategy::Pass>> begin(data::BatchId id, strategy::Weighting weighting) override;
  /// A sample counts as right if the error is less than 0.5.
  Task<strategy::Evaluation> evaluate(int part, int parts) override;
  void commit() override { uncommitted_ = false; }
  void drop() override {
    if (std::exchange(uncommitted_, false)) buffers_ = kept_;
  }
  void visit(StateVisitor& visitor) override {
    if (loss_scale_) loss_scale_->visit(visitor);
  }

  const data::Sampler& sampler() const { return sampler_; }
  /// Sample i: its features and its value.
  std::pair<std::vector<double>, double> sample(std::uint32_t i) const;
  /// The weights without error.
  std::vector<double> truth() const;

 private:
  Task<> compute_pass(data::BatchId id, strategy::Weighting weighting,
                      std::shared_ptr<strategy::PassProgress> progress);
  Task<> compute(data::BatchId id, strategy::Weighting weighting, std::shared_ptr<strategy::PassProgress> progress);
  /// The value that the weights predict for the sample, minus its value.
  double error(const std::vector<double>& x, double y) const;

  Runtime& runtime_;
  LinearOptions options_;
  data::Sampler sampler_;
  strategy::Layout layout_;
  Gates gates_;
  std::optional<optim::LossScale> loss_scale_;
  std::vector<double> weights_, gradients_, buffers_;
  bool uncommitted_ = false;  // a pass has begun since the last commit()
  std::vector<double> kept_;  // the buffers before the first such pass
};

}  // namespace ripieno::testing
