// Learner: a strategy's view of a model and its data. Parameters, gradients and float buffers are flat spans; a pass
// over a batch announces the buckets of the gradient one by one as they become ready. train/torch_learner.h computes
// for real (in virtual time it charges a profile's time); tests have one without LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/collective/schedule.h"
#include "ripieno/core/gates.h"
#include "ripieno/core/runtime.h"
#include "ripieno/core/span.h"
#include "ripieno/core/state.h"
#include "ripieno/data/batch_id.h"
#include "ripieno/optim/loss_scale.h"

namespace ripieno::strategy {

/// How the flat buffers are made up.
struct Layout {
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
    Range range;  ///< in the flat parameters
  };
  DType type = DType::fp32;
  std::vector<Tensor> tensors;  ///< the trainable parameters, each once
  std::size_t parameters = 0;   ///< elements
  std::size_t buffers = 0;      ///< elements of the float buffers (running means and variances)
  std::vector<Range> buckets;   ///< a partition of the parameters, in the order in which gradients become ready
};

/// The samples of one batch.
struct BatchSize {
  std::uint32_t samples = 0;         ///< this worker's; may be 0 in a small batch: the gradient is then 0
  std::uint32_t global_samples = 0;  ///< of all workers in this step; of this one where each goes at its own pace
  /// This worker's part of the whole.
  double share() const { return static_cast<double>(samples) / global_samples; }
};

/// What the mean gradient of a batch is multiplied by. A pass weights its loss with it, which costs nothing, where
/// another pass over the gradients would. With &BatchSize::share, all workers' gradients add up to the mean over all
/// samples.
using Weighting = std::function<double(BatchSize)>;
inline const Weighting unweighted = [](BatchSize) { return 1.0; };

struct PassResult : BatchSize {
  double loss = 0;     ///< mean over this worker's samples; NaN where it has none
  Duration waited{0};  ///< at gates, during the forward pass
};

/// Sums over this worker's share of the test set.
struct Evaluation {
  double correct = 0, loss = 0, samples = 0;
};

/// Forward and backward over one batch, under way.
class Pass {
 public:
  virtual ~Pass() = default;
  /// The next bucket whose gradient is complete (an index into Layout::buckets), each exactly once; nothing at the end.
  virtual Task<std::optional<std::size_t>> next_bucket() = 0;
  /// Whether the pass may still read the parameters of a bucket that was announced.
  virtual bool reads(std::size_t) const { return false; }
  /// Waits until it does not; throws if it fails before.
  virtual Task<> released(std::size_t) { co_return; }
  /// Valid once a bucket has been announced.
  virtual BatchSize size() const = 0;
  /// Waits for the end of the pass. The gradients are then the mean over this worker's samples, weighted, and times the
  /// loss scale.
  virtual Task<PassResult> finish() = 0;
};

class Learner {
 public:
  virtual ~Learner() = default;

  virtual const Layout& layout() const = 0;
  virtual NumberSpan parameters() = 0;
  virtual NumberSpan gradients() = 0;
  virtual NumberSpan buffers() = 0;
  /// Parameters that are not trained, which all ranks must hold alike all the same.
  virtual NumberSpan frozen() { return {}; }

  /// Steps of this worker in one epoch.
  virtual std::uint32_t steps_per_epoch() const = 0;
  /// Samples that this worker's epoch covers: of all workers where they take steps together, its own shard's otherwise.
  virtual std::uint32_t samples_per_epoch() const = 0;

  /// Starts a pass; one at a time. It goes on by itself, announcing buckets as they become ready.
  virtual Task<std::unique_ptr<Pass>> begin(data::BatchId batch, Weighting weighting) = 0;

  /// A pass waits, before it uses a bucket's parameters, while the bucket's gate is closed; and it changes no gradient
  /// before all gates are open.
  virtual Gates& gates() = 0;

  /// Where gradients are computed times a scale, the scale: divide by its value, and tell it of each step whether the
  /// gradients were finite. Null elsewhere.
  virtual optim::LossScale* loss_scale() { return nullptr; }

  /// Evaluates the current parameters and buffers on share `part` of `parts` of the test set.
  virtual Task<Evaluation> evaluate(int part, int parts) = 0;

  /// Keeps what passes since the last commit() changed beside the gradients: buffers and counters. No pass is under
  /// way.
  virtual void commit() = 0;
  /// Takes it back: they are again what they were at the last commit(), or when the first pass began. A pass over a
  /// batch gives the same bits again: its random choices are keyed by the batch.
  virtual void drop() = 0;

  /// What a checkpoint needs besides parameters and buffers.
  virtual void visit(StateVisitor&) {}
};

}  // namespace ripieno::strategy
