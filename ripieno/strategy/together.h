// What strategies do besides their exchange, each in one place: starting from the same weights, a worker's own step,
// evaluating, ending an epoch.
#pragma once

#include "ripieno/core/numbers.h"
#include "ripieno/strategy/strategy.h"

namespace ripieno {

struct StrategyInfo;

/// Gives every rank rank 0's parameters, trained and frozen, and buffers, of which nothing is sent where all ranks hold the same
/// bits already (made from one seed). Ranks with another model get Error(mismatch).
Task<> start_alike(Communicator comm, Learner& learner);

/// The gradients become what they are without a loss scale.
void divide_by_loss_scale(Learner& learner);

/// The optimiser's step on the learner's gradients; not taken where they overflowed under a loss scale, which is told.
/// Gradients that are alike on all ranks make all ranks decide alike.
void step_if_finite(Workplace& place, Optimiser& optimiser, double rate);

/// One pass over a batch and the optimiser's step on its weighted gradients.
Task<PassResult> local_step(Workplace* place, Optimiser* optimiser, BatchId batch, double rate, Weighting weighting);

/// Replaces the buffers (batch norm's running statistics) by their mean over the ranks.
Task<> average_buffers(Communicator comm, Learner& learner);

struct Score {
  double accuracy = 0;  ///< 0 .. 1
  double loss = 0;      ///< mean over the test set
};

/// Every rank evaluates its parameters on its share of the test set; all get the score over the whole.
Task<Score> evaluate_together(Communicator comm, Learner& learner);

/// Whether the plan wants an evaluation after this epoch.
bool evaluates_after(const Plan& plan, std::uint32_t epoch, bool last);

/// Where all ranks hold the same parameters: averages the buffers, evaluates where the plan says so, records the epoch.
Task<> end_epoch_alike(Workplace* place, const Plan* plan, std::uint32_t epoch, bool last);

/// The mean of ranks that differ.
struct Consensus {
  explicit Consensus(const Layout& layout) : parameters(layout.parameters, layout.type), buffers(layout.buffers, layout.type) {}
  Numbers parameters, buffers;
};

/// Where ranks differ: evaluates the mean of all (and each rank's own on the whole test set) where the plan says so, records
/// the epoch, and leaves each rank with what is its own.
Task<> end_epoch_apart(Workplace* place, const Plan* plan, std::uint32_t epoch, bool last, Consensus* consensus);

/// What an averager works on: the given ranges of the parameters, with the matrices that lie in each as a whole.
std::vector<Slot> slots_of(const Layout& layout, const std::vector<Range>& ranges);

/// An averager of such slots along the strategy's route with the plan's codec.
std::unique_ptr<Averager> averager_of(const StrategyInfo& info, const Plan& plan, std::vector<Slot> slots, DType type);

}  // namespace ripieno
