// Strategy: a way for ranks to agree on weights. It defines what happens at each point of training; the trainer
// (trainer.h) runs the loop.
//
// The commit contract. A step is a transaction. attempt() computes and exchanges. The state that a rank keeps from step
// to step (parameters, optimiser, residuals, batch norm's statistics, loss scale) changes only in commit(), all at
// once, when everything that the step needs has arrived at that rank. So an attempt that an abort breaks off can be
// dropped and taken again, and gives the same bits: random choices are keyed by the plan's seed, the step and their
// purpose, and never drawn from a stream that a dropped attempt advances. Each rank commits by itself: after an abort
// some ranks may have committed a step that others have not, and recover() brings the others up to it. can_retake
// (registry.h) is false for strategies that cannot keep this contract.
//
// Strategies whose workers always hold the same weights derive from Alike (alike.h); those whose workers differ between
// exchanges derive from Apart (apart.h).
#pragma once

#include <compare>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/collective/averager.h"
#include "ripieno/collective/communicator.h"
#include "ripieno/observe/recorder.h"
#include "ripieno/optim/learning_rate.h"
#include "ripieno/optim/optimiser.h"
#include "ripieno/strategy/learner.h"

namespace ripieno::strategy {

/// Route and codec, for the strategies that leave them open.
struct ExchangeOptions {
  std::string route =
      "auto";  ///< for strategies with route "any" in the registry (collective/schedule.h); auto: see settled()
  std::string small_route = "auto";  ///< for buckets of up to small_bytes; auto: as `route`
  std::size_t small_bytes = 0;
  codec::CodecOptions codec = {};  ///< codec/codec.h
  std::size_t segment_bytes = 0;   ///< collective/execute.h
  int in_flight = 0;               ///< ddp: buckets averaged at once; 0: all
  bool forward = false;            ///< ddp: the exchange may go on during the next forward pass

  /// Whether MPI's own operation is used (collective/native.h).
  bool is_native() const { return route == transport::native_route; }
};

/// Parameter servers.
struct ServerOptions {
  int count = 1;        ///< shards of the model, each on its own rank or beside a worker, >= 1
  bool beside = false;  ///< shard i is on worker i's rank
  int staleness = 2;    ///< ps-ssp: steps that the fastest worker may be ahead of the slowest, >= 0
};

/// What federated averaging does with batch norm's statistics (federated.h).
enum class Statistics : std::uint8_t { rank0, mean, local };

/// Federated averaging.
struct FederatedOptions {
  std::uint32_t local_epochs = 1;            ///< a client's epochs between two exchanges, >= 1
  double fraction = 1;                       ///< the part of the clients in each round, in (0, 1]
  bool deltas = false;                       ///< clients send their changes; else their parameters
  Statistics statistics = Statistics::mean;  ///< batch norm's running mean and variance
};

/// Local SGD and DiLoCo.
struct LocalOptions {
  std::uint32_t steps = 8;      ///< a worker's steps between two exchanges of the same fragment, >= 1
  std::uint32_t fragments = 1;  ///< parts of the model that are exchanged in turn, 1 .. steps
  std::uint32_t delay = 0;      ///< steps that a worker computes while an exchange is in flight, 0 .. steps / fragments
};

/// The optimiser that steps on averaged differences (outer.h).
struct OuterOptions {
  double learning_rate = 0;                          ///< 0: the strategy's own
  double momentum = 0.9;                             ///< fedavgm, diloco
  double beta1 = 0.9, beta2 = 0.99, epsilon = 1e-3;  ///< fedadam
};

/// A point of training: before this step of this epoch, both counted from 0.
struct Point {
  std::uint32_t epoch = 0, step = 0;
  auto operator<=>(const Point&) const = default;
};
/// "after 3 epochs", "after 3 epochs and 12 steps", "after 12 steps".
std::string described(Point point);

/// The options of training, and of each family of strategies.
struct Plan {
  std::uint32_t epochs = 1;
  std::uint32_t first_epoch = 0;     ///< > 0 in a run that is resumed after so many epochs, and
  std::uint32_t first_step = 0;      ///< so many steps of the next; see is_resumed()
  std::uint64_t max_steps = 0;       ///< ends training after that many steps of a worker; 0: no limit
  std::uint32_t evaluate_every = 1;  ///< epochs; the last is always evaluated
  std::uint64_t seed = 0;            ///< of partners, clients and random rounding
  optim::OptimiserOptions optimiser;
  optim::LearningRateOptions learning_rate;
  double rate_scale = 1;  ///< the factor of the learning rate, e.g. the number of workers
  ExchangeOptions exchange;
  ServerOptions servers;
  FederatedOptions federated;
  LocalOptions local;
  OuterOptions outer;
  int passes = 1;  ///< accumulate: batches per exchange; ring-passes: predecessors; >= 1

  bool is_resumed() const { return first_epoch > 0 || first_step > 0; }
  /// Whether the plan wants an evaluation after this epoch.
  bool evaluates_after(std::uint32_t epoch, bool last) const {
    return last || (evaluate_every > 0 && (epoch + 1) % evaluate_every == 0);
  }
};

/// A loop around the strategy that computes the gradients, such as a user's own (loop/agree.h). It takes the place of
/// the plan's end, optimiser and rates.
class UsersLoop {
 public:
  virtual ~UsersLoop() = default;
  /// Called before each step, when the learner holds the weights of the next pass. Returns once the loop has computed
  /// the gradients there, so that the learner's next pass hands them over at once; false: the loop has ended.
  virtual Task<bool> has_next() = 0;
  /// The optimiser of this worker's own steps.
  virtual std::unique_ptr<optim::Optimiser> make_optimiser() = 0;
  /// The learning rate of updates that this rank makes as a parameter server.
  virtual double rate() const = 0;
};

class Pauses;

/// What a strategy works with on one rank. All of it outlives the strategy.
struct Workplace {
  collective::Communicator comm;
  Learner& learner;
  observe::Recorder& recorder;
  /// If set, called after every epoch, when the learner's parameters and the strategy's state may be saved.
  std::function<void(std::uint32_t epoch)> checkpoint;
  /// After a peer broke off an exchange (Error(peer)): makes, from the ended communicator, a fresh one of the ranks
  /// that go on. Throws an Error if no rank can go on. Unset: such an error ends training.
  std::function<Task<collective::Communicator>(collective::Communicator ended)> regroup;
  UsersLoop* loop = nullptr;  ///< null: the plan decides
  /// If set, called after every loss with the communicator of the ranks that go on.
  std::function<void(const collective::Communicator& alive)> goes_on_with = {};
  Pauses* pauses = nullptr;  ///< pauses.h; null: training never pauses
};

/// One step of one rank.
struct TrainingStep {
  data::BatchId batch;
  std::uint64_t number = 0;  ///< from 0, over the whole run
  double rate = 0;           ///< the learning rate
  bool ends_epoch = false;   ///< the last step of this rank's epoch
};

/// The result of a step.
struct StepResult : PassResult {
  std::optional<std::int64_t> age;  ///< as in StepRecord
};

struct EpochEnd {
  std::uint32_t epoch = 0;
  bool last = false;       ///< training ends with this epoch
  bool early = false;      ///< the plan's max_steps ends training here, within an epoch or not
  bool evaluates = false;  ///< the plan wants an evaluation
};

/// What an abort broke off on a rank: a step (`step` is set), the end of an epoch (`record` is set), or else the
/// beginning of an epoch or the end of training.
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

  /// Trains to the plan's end, once (trainer.h), or throws Stopped (pauses.h). Every rank of the communicator calls it.
  /// In a resumed run with nothing left to train it makes the consensus anew.
  Task<> run();

  /// The weights that are evaluated and saved. Valid after run() on the ranks that hold them, among them rank 0.
  virtual NumberSpan consensus() = 0;
  /// The float buffers (batch norm's statistics) that go with them. Empty: the learner's own.
  virtual NumberSpan consensus_buffers() { return {}; }

  /// Shows the state that a resumed run needs: optimiser, residuals, versions.
  virtual void visit(StateVisitor& visitor) = 0;

 protected:
  friend class Trainer;

  // The points of training, in their order.

  /// Gives all ranks the same weights.
  virtual Task<> start() = 0;
  /// Tasks that run on this rank beside training, to its end: serving shards of the model.
  virtual std::vector<Task<>> services() { return {}; }
  /// Before the first step, when services have begun.
  virtual Task<> begin_training() { co_return; }
  /// For this rank: the epoch before which training ends, and its number of steps in an earlier epoch.
  virtual std::uint32_t epochs_end() const;
  virtual std::uint32_t steps_in(std::uint32_t epoch) const;
  virtual Task<> begin_epoch(std::uint32_t) { co_return; }
  /// Takes the step up to the point where it can commit. `result` is filled in when its pass is over.
  virtual Task<> attempt(TrainingStep step, StepResult* result) = 0;
  virtual void commit(TrainingStep step) = 0;
  /// Evaluates if `end` asks for it, and fills in the record.
  virtual Task<> end_epoch(EpochEnd end, observe::EpochRecord* record) = 0;
  /// The user's loop has ended, within an epoch or before its first step: ends what later steps would have ended.
  virtual Task<> end_loop() { co_return; }
  /// Whether this rank records epochs.
  virtual bool records_epochs() const { return true; }
  /// Whether the state after this epoch is complete, so that a run can resume from it.
  virtual bool can_save_after(EpochEnd end) const { return !end.early; }
  /// Within an epoch, between two steps: whether the state that visit() shows is complete, once what is in flight has
  /// landed. The same on all ranks that have taken as many steps.
  virtual bool is_complete() const { return false; }
  /// Waits for what is in flight between two steps where is_complete(), and changes nothing else.
  virtual Task<> land() { co_return; }
  /// Then, before that is saved: Error(mismatch), the same on all ranks, if what they must hold alike differs.
  virtual Task<> compare(Point) { co_return; }
  /// This rank has trained to the end, and no other rank needs it to recover.
  virtual void trained() {}
  /// Called when all have trained and services have ended.
  virtual Task<> finish() { co_return; }
  /// Called instead of all else, if a resumed run has nothing left to train: makes the consensus from
  /// what the ranks have loaded.
  virtual Task<> conclude() { co_return; }

  /// After an abort: takes channels from the fresh communicator.
  virtual void regrouped() {}
  /// After regrouped(): ranks that are behind catch up with the commits of the others, and all drop the rest. Returns
  /// true if what was broken off is committed now.
  virtual Task<bool> recover(BrokenOff what);
  /// Whether no exchange of a committed step is still in flight.
  virtual bool is_idle() const { return true; }
  /// An error ends training: ends everything that is in flight on this rank.
  virtual void give_up(std::exception_ptr error) { place_.comm.abort(error); }

  Plan plan_;
  Workplace place_;
};

}  // namespace ripieno::strategy
