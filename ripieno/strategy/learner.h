// Learner: a strategy's view of a model and its data. Parameters, gradients and float buffers are flat spans; a pass
// over a batch announces the gradient's buckets one by one as they become ready. train/torch_learner.h really computes
// (in virtual time it charges the times of a profile); tests use a learner without LibTorch.
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

/// The layout of a model's flat spans.
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
  std::uint32_t samples = 0;  ///< this worker's; may be 0 in a small batch, whose gradient is then 0
  std::uint32_t global_samples =
      0;  ///< of all workers in this step; of this worker alone where each goes at its own pace
  /// This worker's part of the whole.
  double share() const { return static_cast<double>(samples) / global_samples; }
};

/// The factor of a batch's mean gradient. A pass applies it to its loss, which costs nothing, instead of to the
/// gradients, which would cost another pass over them. With &BatchSize::share, the workers' gradients add up to the
/// mean over all samples.
using Weighting = std::function<double(BatchSize)>;
inline const Weighting unweighted = [](BatchSize) { return 1.0; };

struct PassResult : BatchSize {
  double loss = 0;     ///< mean over this worker's samples; NaN without any
  Duration waited{0};  ///< at gates, during the forward pass
};

/// Sums over this worker's share of the test set.
struct Evaluation {
  double correct = 0, loss = 0, samples = 0;
};

/// A running forward and backward pass over one batch.
class Pass {
 public:
  virtual ~Pass() = default;
  /// The next bucket whose gradient is complete, as an index into Layout::buckets: each exactly once, then nullopt.
  virtual Task<std::optional<std::size_t>> next_bucket() = 0;
  /// Whether the pass may still read the parameters of an announced bucket.
  virtual bool reads(std::size_t) const { return false; }
  /// Waits until the pass no longer reads them; throws if the pass fails first.
  virtual Task<> released(std::size_t) { co_return; }
  /// Valid once a bucket has been announced.
  virtual BatchSize size() const = 0;
  /// Waits for the end of the pass. The gradients are then the mean over this worker's samples, times the weight and
  /// the loss scale.
  virtual Task<PassResult> finish() = 0;
};

class Learner {
 public:
  virtual ~Learner() = default;

  virtual const Layout& layout() const = 0;
  virtual NumberSpan parameters() = 0;
  virtual NumberSpan gradients() = 0;
  virtual NumberSpan buffers() = 0;
  /// Parameters that are not trained; all ranks must still hold the same.
  virtual NumberSpan frozen() { return {}; }

  /// Steps of this worker in one epoch.
  virtual std::uint32_t steps_per_epoch() const = 0;
  /// Samples in this worker's epoch: all workers' where they take steps together, else those of its own shard.
  virtual std::uint32_t samples_per_epoch() const = 0;

  /// The samples that this worker itself takes in an epoch, by which its statistics count beside other workers'. Only
  /// their ratio matters.
  virtual double own_samples() const { return 1; }

  /// Starts a pass; one at a time. It goes on by itself, announcing buckets as they become ready.
  virtual Task<std::unique_ptr<Pass>> begin(data::BatchId batch, Weighting weighting) = 0;

  /// Before a pass uses a bucket's parameters, it waits for the bucket's gate to open; it changes no gradient before
  /// all gates are open.
  virtual Gates& gates() = 0;

  /// The scale by which gradients come multiplied; null without one. The caller divides by its value and tells it for
  /// each step whether the gradients were finite.
  virtual optim::LossScale* loss_scale() { return nullptr; }

  /// Evaluates the current parameters and buffers on share `part` of `parts` of the test set.
  virtual Task<Evaluation> evaluate(int part, int parts) = 0;

  /// Keeps everything but gradients that passes have changed since the last commit(): buffers and counters. No pass may
  /// be running.
  virtual void commit() = 0;
  /// Undoes those changes: buffers and counters are again as at the last commit(), or as before the first pass. A
  /// second pass over a batch then gives the same bits, since its random choices are keyed by the batch.
  virtual void drop() = 0;

  /// Shows the state that a checkpoint needs besides parameters and buffers.
  virtual void visit(StateVisitor&) {}
};

}  // namespace ripieno::strategy
