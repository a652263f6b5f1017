// A learner that computes nothing: in virtual time, a pass takes the time of a profile and leaves random gradients. If
// nobody needs the numbers, parameters, gradients and buffers have sizes without data (core/span.h).
#pragma once

#include <memory>
#include <optional>

#include "ripieno/numeric/numbers.h"
#include "ripieno/strategy/compute_profile.h"
#include "ripieno/strategy/learner.h"
#include "ripieno/strategy/pass_progress.h"

namespace ripieno::predict {

struct ChargedOptions {
  strategy::Layout layout;
  strategy::ComputeProfile profile;  ///< `ready` for each of the layout's buckets
  std::vector<double> factors;       ///< factors of the time of each step's pass, repeated cyclically; empty: 1
  Duration before_pass{0};           ///< charged before each pass: an optimiser's step
  Duration before_all{0};            ///< charged before the first pass
  std::uint32_t steps = 1;           ///< per epoch
  std::uint32_t samples = 1;         ///< per pass
  std::uint32_t global_samples = 1;  ///< of all workers' passes in a step; as `samples` if each goes at its own pace
  bool loss_scale = false;
  bool numbers = true;     ///< parameters, gradients and buffers have data, so that any strategy runs unchanged
  std::uint64_t seed = 0;  ///< for the gradients, which are uniform over [-1, 1) times 1e-3
};

class ChargedLearner final : public strategy::Learner {
 public:
  /// `runtime` must be in virtual time.
  ChargedLearner(Runtime& runtime, ChargedOptions options);

  const strategy::Layout& layout() const override { return options_.layout; }
  NumberSpan parameters() override { return parameters_.span(); }
  NumberSpan gradients() override { return gradients_.span(); }
  NumberSpan buffers() override { return buffers_.span(); }
  std::uint32_t steps_per_epoch() const override { return options_.steps; }
  std::uint32_t samples_per_epoch() const override { return options_.steps * options_.samples; }
  Gates& gates() override { return gates_; }
  optim::LossScale* loss_scale() override { return loss_scale_ ? &*loss_scale_ : nullptr; }
  Task<std::unique_ptr<strategy::Pass>> begin(data::BatchId batch, strategy::Weighting weighting) override;
  void commit() override {}
  void drop() override {}
  /// Takes no time and finds nothing.
  Task<strategy::Evaluation> evaluate(int, int) override { co_return strategy::Evaluation{}; }

 private:
  Task<> pass(data::BatchId batch, std::shared_ptr<strategy::PassProgress> progress);
  Task<> charge(data::BatchId batch, std::shared_ptr<strategy::PassProgress> progress);
  /// The profile charged for a pass.
  strategy::ComputeProfile profile_of(data::BatchId batch) const;

  Runtime& runtime_;
  ChargedOptions options_;
  Gates gates_;
  std::optional<optim::LossScale> loss_scale_;
  numeric::Numbers parameters_, gradients_, buffers_, drawn_;
};

}  // namespace ripieno::predict
