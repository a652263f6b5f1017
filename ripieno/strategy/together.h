// What every strategy does with the whole group besides its exchange: starting from the same weights, and evaluating.
#pragma once

#include "ripieno/collective/group.h"
#include "ripieno/strategy/learner.h"

namespace ripieno {

/// Gives every rank rank 0's parameters, trained and frozen, and buffers. Ranks with another model get Error(mismatch).
Task<> start_alike(Group group, Learner& learner);

/// Replaces the buffers (batch norm's running statistics) by their mean over the ranks.
Task<> average_buffers(Group group, Learner& learner);

struct Score {
  double accuracy = 0;  ///< 0 .. 1
  double loss = 0;      ///< mean over the test set
};

/// Every rank evaluates its parameters on its share of the test set; all get the score over the whole.
Task<Score> evaluate_together(Group group, Learner& learner);

}  // namespace ripieno
