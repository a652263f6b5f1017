// Strategy: a way to agree. It says what it does at each point of training; the trainer (trainer.h) takes the steps.
//
// The commit contract. A step is a transaction. attempt() computes and exchanges; what a rank keeps from step to step
// (parameters, optimiser, residuals, batch norm's statistics, loss scale) changes in commit() alone, at once, when
// everything that the step needs has landed on that rank. So an attempt that an abort breaks off can be dropped and
// taken again, and gives the same bits: random choices are keyed by the plan's seed, the step and what they are for,
// never drawn from a stream that a dropped attempt advances. Ranks commit by themselves: after an abort some may have
// committed a step that others have not, and recover() evens that out. What cannot keep the contract says so
// (can_retake, registry.h).
//
// Workers that hold the same weights are Alike (alike.h), those that differ between exchanges Apart (apart.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ripieno/collective/averager.h"
#include "ripieno/collective/communicator.h"
#include "ripieno/observe/recorder.h"
#include "ripieno/optim/learning_rate.h"
#include "ripieno/optim/optimiser.h"
#include "ripieno/strategy/learner.h"

namespace ripieno::strategy {

/// With whom and how, for the strategies that leave it open.
struct ExchangeOptions {
  std::string route =
      "auto";  ///< of strategies whose registry line says "any" (collective/schedule.h); auto: see settled()
  std::string small_route = "auto";  ///< the same, of buckets of up to small_bytes; auto: as all
  std::size_t small_bytes = 0;
  codec::CodecOptions codec = {};  ///< codec/codec.h
  std::size_t segment_bytes = 0;   ///< collective/execute.h
  int in_flight = 0;               ///< ddp: buckets that are averaged at once; 0: all
  bool forward = false;            ///< ddp: the exchange may go on under the next forward pass
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
  double learning_rate = 0;                          ///< 0: the strategy's own
  double momentum = 0.9;                             ///< fedavgm, diloco
  double beta1 = 0.9, beta2 = 0.99, epsilon = 1e-3;  ///< fedadam
};

/// What is to be trained, and each family's options.
struct Plan {
  std::uint32_t epochs = 1;
  std::uint32_t first_epoch = 0;     ///< > 0 for a run that is resumed
  std::uint64_t max_steps = 0;       ///< ends training after that many steps of a worker; 0: no limit
  std::uint32_t evaluate_every = 1;  ///< epochs; the last is always evaluated
  std::uint64_t seed = 0;            ///< of partners, clients and random rounding
  optim::OptimiserOptions optimiser;
  optim::LearningRateOptions learning_rate;
  double rate_scale = 1;  ///< times the learning rate, e.g. the number of workers
  ExchangeOptions exchange;
  ServerOptions servers;
  FederatedOptions federated;
  LocalOptions local;
  OuterOptions outer;
  int passes = 1;  ///< accumulate: batches before an exchange; ring-passes: predecessors; >= 1

  /// Whether it wants an evaluation after this epoch.
  bool evaluates_after(std::uint32_t epoch, bool last) const {
    return last || (evaluate_every > 0 && (epoch + 1) % evaluate_every == 0);
  }
};

/// What a strategy works with on one rank. All outlive it.
struct Workplace {
  collective::Communicator comm;
  Learner& learner;
  observe::Recorder& recorder;
  /// Called (where set) after every epoch, when parameters() and the strategy's state are those to save.
  std::function<void(std::uint32_t epoch)> checkpoint;
  /// After an exchange that a peer broke off (Error(peer)): a fresh communicator of those who go on, from the one that
  /// ended. Throws an Error where nobody can. Unset: such an error ends training.
  std::function<collective::Communicator(const collective::Communicator& ended)> regroup;
};

/// One step of one rank.
struct TrainingStep {
  data::BatchId batch;
  std::uint64_t number = 0;  ///< from 0, over the whole run
  double rate = 0;           ///< of learning
  bool ends_epoch = false;   ///< it is the last of this rank's epoch
};

/// What came of a step.
struct StepResult : PassResult {
  std::optional<std::int64_t> age;  ///< as StepRecord
};

struct EpochEnd {
  std::uint32_t epoch = 0;
  bool last = false;       ///< training ends with it
  bool early = false;      ///< the plan's max_steps ends training here, within an epoch or not
  bool evaluates = false;  ///< the plan wants an evaluation
};

/// What an abort broke off on a rank: a step, or where there is none the beginning of an epoch, its end (with its
/// record), or the way out.
struct BrokenOff {
  const TrainingStep* step = nullptr;
  observe::EpochRecord* record = nullptr;
};

class Strategy {
 public:
  Strategy(const Plan& plan, Workplace workplace) : plan_(plan), place_(std::move(workplace)) {}
  virtual ~Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  /// Trains to the plan's end, once (trainer.h). Every rank of the communicator calls it.
  Task<> run();

  /// The weights that are evaluated and saved. Valid after run() on the ranks that hold them (rank 0 always does).
  virtual NumberSpan consensus() = 0;
  /// The float buffers (batch norm's statistics) that go with them. Empty: the learner's own.
  virtual NumberSpan consensus_buffers() { return {}; }

  /// State that a resumed run needs: optimiser, residuals, versions.
  virtual void visit(StateVisitor& visitor) = 0;

 protected:
  friend class Trainer;

  // The points of training, in their order.

  /// All ranks begin from the same weights.
  virtual Task<> start() = 0;
  /// What this rank does beside training, to its end: it serves shards of the model.
  virtual std::vector<Task<>> services() { return {}; }
  /// Before the first step, when services have begun.
  virtual Task<> begin_training() { co_return; }
  /// Of this rank: the epoch before which training ends, and its steps in an epoch before that.
  virtual std::uint32_t epochs_end() const;
  virtual std::uint32_t steps_in(std::uint32_t epoch) const;
  virtual Task<> begin_epoch(std::uint32_t) { co_return; }
  /// The step, up to where it could commit. `result` is filled in when its pass is over.
  virtual Task<> attempt(TrainingStep step, StepResult* result) = 0;
  virtual void commit(TrainingStep step) = 0;
  /// Evaluates where it is asked to, and fills in the record.
  virtual Task<> end_epoch(EpochEnd end, observe::EpochRecord* record) = 0;
  /// Whether this rank records epochs.
  virtual bool records_epochs() const { return true; }
  /// Whether what visit() shows after this epoch is whole: a state to go on from.
  virtual bool can_save_after(EpochEnd end) const { return !end.early; }
  /// This rank has trained to the end, and nobody needs it to recover any more.
  virtual void trained() {}
  /// When all have trained, and services have ended.
  virtual Task<> finish() { co_return; }

  /// After an abort, over a fresh communicator: takes channels from it anew.
  virtual void regrouped() {}
  /// Then: ranks even out who has committed what, and forget the rest. True: what was broken off is committed now.
  virtual Task<bool> recover(BrokenOff what);
  /// Whether nothing that a committed step began is still under way.
  virtual bool is_idle() const { return true; }
  /// An error ends training: makes all end that is under way on this rank.
  virtual void give_up(std::exception_ptr error) { place_.comm.abort(error); }

  Plan plan_;
  Workplace place_;
};

}  // namespace ripieno::strategy
