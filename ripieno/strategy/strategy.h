// Strategy: a way to agree. It owns the training loop of one rank: when to compute, what to exchange, how to update.
#pragma once

#include <functional>
#include <memory>

#include "ripieno/collective/averager.h"
#include "ripieno/collective/group.h"
#include "ripieno/observe/recorder.h"
#include "ripieno/optim/learning_rate.h"
#include "ripieno/optim/optimiser.h"
#include "ripieno/strategy/learner.h"

namespace ripieno {

/// What is to be trained, whatever the strategy.
struct Plan {
  std::uint32_t epochs = 1;
  std::uint32_t first_epoch = 0;     ///< > 0 for a run that is resumed
  std::uint64_t max_steps = 0;       ///< ends training after that many steps of a worker; 0: no limit
  std::uint32_t evaluate_every = 1;  ///< epochs; the last is always evaluated
  OptimiserOptions optimiser;
  LearningRateOptions learning_rate;
  double rate_scale = 1;             ///< times the learning rate, e.g. the number of workers
  std::string wire = "auto";         ///< codec/wire.h
  std::size_t segment_bytes = 0;     ///< collective/execute.h
  std::uint32_t local_epochs = 1;    ///< federated averaging: epochs between two exchanges
};

/// What a strategy works with on one rank. All outlive it.
struct Workplace {
  Group group;
  Learner& learner;
  Recorder& recorder;
  /// Called (where set) after every epoch, when parameters() and the strategy's state are those to save.
  std::function<void(std::uint32_t epoch)> checkpoint;
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  /// Trains to the plan's end. Every rank of the group calls it.
  virtual Task<> run() = 0;

  /// The weights that are evaluated and saved. Valid after run() on the ranks that hold them (rank 0 always does).
  virtual FloatSpan consensus() = 0;

  /// State that a resumed run needs: optimiser, residuals, versions.
  virtual void visit(StateVisitor& visitor) = 0;
};

}  // namespace ripieno
