// What ranks compute together: a score over the whole test set, the mean of their buffers, and whether they hold the
// same bits.
#pragma once

#include <cmath>
#include <string_view>
#include <vector>

#include "ripieno/collective/communicator.h"
#include "ripieno/strategy/learner.h"

namespace ripieno::strategy {

struct Score {
  double accuracy = NAN;  ///< 0 .. 1; NaN: not evaluated
  double loss = NAN;      ///< mean over the test set
};

/// Shows the score to a visitor, which may overwrite it.
inline void visit_score(StateVisitor& visitor, Score& score) {
  visitor.span("accuracy", NumberSpan(&score.accuracy, 1, DType::fp64));
  visitor.span("loss", NumberSpan(&score.loss, 1, DType::fp64));
}

/// Every rank evaluates its parameters on its share of the test set; all get the score over the whole.
Task<Score> evaluate_together(collective::Communicator comm, Learner& learner);

/// Replaces the buffers (batch norm's running statistics) by their mean over the ranks, each weighted by the samples
/// that it takes in an epoch.
Task<> average_buffers(collective::Communicator comm, Learner& learner);

/// Replaces the numbers by their sums over the ranks.
Task<> sum_up(collective::Communicator comm, NumberSpan numbers, observe::Purpose purpose = observe::Purpose::evaluate);

/// Something that all ranks must hold alike: "parameters", and a hash of it.
struct Held {
  std::string_view what;
  std::uint64_t hash = 0;
};

/// The learner's parameters, trained and frozen, and buffers.
std::vector<Held> held_by(Learner& learner);

/// Compares what the ranks hold. Error(mismatch), the same on all ranks: they differ; it says `where` ("after 3
/// epochs"), and names those that differ from most, and the hashes.
Task<> compare_replicas(collective::Communicator comm, std::vector<Held> held, std::string where);

/// For each span, whether all ranks hold the same bits, judged by hashes. All ranks get the same answer.
Task<std::vector<bool>> are_alike(collective::Communicator comm, std::vector<NumberSpan> states,
                                  observe::Purpose purpose);

}  // namespace ripieno::strategy
