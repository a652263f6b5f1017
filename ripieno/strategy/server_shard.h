// One shard of the model at its parameter server: its weights, its optimiser's state, and the rule by which workers'
// gradients become updates. No messages here: whoever hands over a gradient awaits the weights to go on with.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ripieno/core/async.h"
#include "ripieno/numeric/numbers.h"
#include "ripieno/strategy/strategy.h"

namespace ripieno::strategy {

/// Whom a worker waits for.
enum class Pace : std::uint8_t {
  together,  ///< all others, every step
  own,       ///< nobody
  bounded,   ///< those that are more than Plan::servers.staleness steps behind
};

/// What goes with a gradient.
struct Push {
  double loss = 0;  ///< mean over the samples; NaN without any
  std::uint32_t samples = 0;
  std::uint32_t finite = 1;  ///< 0: the whole gradient (all its shards) overflowed, so that no shard may use it
  std::int64_t step = 0;     ///< the worker's, from 0 over the whole run: a shard applies each step of a worker once
};

/// What goes with the weights.
struct ShardAnswer {
  std::int64_t age = 0;       ///< of the gradient (parameter_server.h)
  std::uint64_t applied = 1;  ///< whether the weights followed it
};

/// A push that became an update, in the order in which the shard made them: those that are finite, replayed, give its
/// weights.
struct Applied {
  int worker;  ///< the round's last where workers go together
  std::int64_t step;
  NumberSpan gradient;  ///< what the optimiser stepped on
  double rate;
};

/// What the workers do in an epoch, by worker.
struct WorkersWork {
  std::vector<double> samples;
  std::vector<std::uint32_t> steps;
};

/// A copy of a shard at an epoch's end.
struct Snapshot {
  std::uint32_t epoch = 0;
  std::shared_ptr<numeric::Numbers> weights, buffers;  ///< null: none follow
};

class ServerShard {
 public:
  /// Of `numbers` weights; `buffers` > 0 on the shard that keeps the buffers.
  ServerShard(const Plan& plan, Pace pace, std::size_t numbers, std::size_t buffers, DType type, Workplace& place);

  NumberSpan weights() { return weights_.span(); }
  NumberSpan buffers() { return buffers_.span(); }

  /// To be called once, before the first push. `records`: steps go to the recorder.
  void begin(const WorkersWork& work, bool records);

  /// One worker's gradient, weighted and without loss scale. Returns when the worker may go on, with `weights` filled,
  /// which may be the memory of `gradient`. A step that was applied already is answered as it was, and not applied
  /// again. Throws what give_up() was told, and Error(mismatch) on a step that is not the worker's next.
  Task<ShardAnswer> exchange(int worker, Push push, NumberSpan gradient, NumberSpan buffers, NumberSpan weights);

  /// A snapshot after each epoch that is to be evaluated and one of the end, then one without weights.
  Queue<Snapshot>& snapshots() { return snapshots_; }
  /// Called where set with each update, before the weights follow it.
  std::function<void(const Applied&)> on_applied;
  /// Called where set after each epoch.
  std::function<void(std::uint32_t epoch)> on_epoch;

  /// All who wait get the error; what has arrived for a round that was not made is forgotten, and may be pushed again.
  void interrupt(std::exception_ptr error);
  /// The same, and whoever pushes from now on gets it.
  void give_up(std::exception_ptr error);

  /// Weights, buffers, versions, the optimiser's state.
  void visit(StateVisitor& visitor);

 private:
  struct Arrival {
    Push push;
    NumberSpan gradient, buffers;
  };

  Task<std::uint64_t> meet(int worker, Arrival arrival);
  void average_arrivals();
  ShardAnswer apply(int worker, const Arrival& arrival);
  Task<> wait_turn(int worker);
  std::int64_t lead(int worker) const;
  bool has_ended(int worker) const { return clocks_[worker] == totals_[worker]; }

  double update(int worker, const Push& push, NumberSpan gradient);
  void record(const Push& push, double rate, std::optional<std::int64_t> age);
  void advance(double by);
  void snapshot(std::uint32_t epoch);
  void end_where_all_have();

  Plan plan_;
  Pace pace_;
  Runtime& runtime_;
  observe::Recorder& recorder_;
  numeric::Numbers weights_, buffers_;
  std::unique_ptr<optim::Optimiser> optimiser_;
  optim::LearningRate learning_rate_;
  bool records_ = false;
  std::int64_t version_ = 0;  // updates that the weights have had
  std::int64_t steps_ = 0;    // the same and those that were not finite

  std::vector<std::int64_t> begins_;           // of each worker: its first push's step
  std::vector<std::int64_t> totals_, clocks_;  // of each worker: pushes in all, and so far
  std::vector<ShardAnswer> answers_;           // of each worker: to its last push
  std::vector<std::int64_t> pulled_;           // of each worker: own: the version, bounded: the lead, at its last pull
  std::vector<std::shared_ptr<Event>> waiting_;

  std::vector<Arrival> arrived_;  // together: the round's
  int arrivals_ = 0;
  std::uint64_t round_applied_ = 0;
  numeric::Numbers sum_;
  std::shared_ptr<Event> round_;

  double per_epoch_ = 0, done_ = 0;  // together: rounds; else samples
  double snapshot_at_ = -1;
  std::uint32_t epochs_seen_ = 0;
  Queue<Snapshot> snapshots_;
  std::exception_ptr error_;
};

/// Steps of a worker from the plan's first epoch to its end.
std::int64_t steps_in_all(const Plan& plan, std::uint32_t per_epoch);

}  // namespace ripieno::strategy
