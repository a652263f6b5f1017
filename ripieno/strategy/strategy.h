// Strategy: a way to agree. It owns the training loop of one rank: when to compute, what to exchange, how to update.
#pragma once

#include <functional>
#include <memory>

#include "ripieno/collective/averager.h"
#include "ripieno/collective/communicator.h"
#include "ripieno/observe/recorder.h"
#include "ripieno/optim/learning_rate.h"
#include "ripieno/optim/optimiser.h"
#include "ripieno/strategy/learner.h"

namespace ripieno {

/// With whom and how, for the strategies that leave it open.
struct ExchangeOptions {
  std::string route = "auto";     ///< of strategies whose registry line says "any" (collective/schedule.h); auto: see settled()
  std::string small_route = "auto";  ///< the same, of buckets of up to small_bytes; auto: as all
  std::size_t small_bytes = 0;
  CodecOptions codec = {};        ///< codec/codec.h
  std::size_t segment_bytes = 0;  ///< collective/execute.h
  int in_flight = 0;              ///< ddp: buckets that are averaged at once; 0: all
  bool forward = false;           ///< ddp: the exchange may go on under the next forward pass
};

/// Parameter servers.
struct ServerOptions {
  int count = 1;        ///< shards of the model, each on a rank of its own or beside a worker, >= 1
  bool beside = false;  ///< shard i lives on worker i's rank
  int staleness = 2;    ///< ps-ssp: steps that the fastest worker may be ahead of the slowest, >= 0
};

/// Batch norm's statistics where clients keep their own.
enum class Statistics : std::uint8_t { rank0, mean, local };

/// Federated averaging.
struct FederatedOptions {
  std::uint32_t local_epochs = 1;            ///< of a client between two exchanges, >= 1
  double fraction = 1;                       ///< of the clients that take part in a round, in (0, 1]
  bool deltas = false;                       ///< clients send what they changed; else their parameters
  Statistics statistics = Statistics::mean;  ///< what becomes of batch norm's running mean and variance
};

/// Local SGD and DiLoCo.
struct LocalOptions {
  std::uint32_t steps = 8;      ///< of a worker between two exchanges of the same numbers, >= 1
  std::uint32_t fragments = 1;  ///< parts of the model that are exchanged in turn, 1 .. steps
  std::uint32_t delay = 0;      ///< steps that an exchange may take while computing goes on, 0 .. steps / fragments
};

/// The optimiser that steps on averaged differences: a federation's server, DiLoCo's outer step.
struct OuterOptions {
  double learning_rate = 0;  ///< 0: the strategy's own
  double momentum = 0.9;     ///< fedavgm, diloco
  double beta1 = 0.9, beta2 = 0.99, epsilon = 1e-3;  ///< fedadam
};

/// What is to be trained, and each family's options.
struct Plan {
  std::uint32_t epochs = 1;
  std::uint32_t first_epoch = 0;     ///< > 0 for a run that is resumed
  std::uint64_t max_steps = 0;       ///< ends training after that many steps of a worker; 0: no limit
  std::uint32_t evaluate_every = 1;  ///< epochs; the last is always evaluated
  std::uint64_t seed = 0;            ///< of partners, clients and random rounding
  OptimiserOptions optimiser;
  LearningRateOptions learning_rate;
  double rate_scale = 1;             ///< times the learning rate, e.g. the number of workers
  ExchangeOptions exchange;
  ServerOptions servers;
  FederatedOptions federated;
  LocalOptions local;
  OuterOptions outer;
  int passes = 1;                    ///< accumulate: batches before an exchange; ring-passes: predecessors; >= 1
};

/// What a strategy works with on one rank. All outlive it.
struct Workplace {
  Communicator comm;
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
  virtual NumberSpan consensus() = 0;
  /// The float buffers (batch norm's statistics) that go with them. Empty: the learner's own.
  virtual NumberSpan consensus_buffers() { return {}; }

  /// State that a resumed run needs: optimiser, residuals, versions.
  virtual void visit(StateVisitor& visitor) = 0;
};

}  // namespace ripieno
