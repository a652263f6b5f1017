// One shard of the model at its parameter server: its weights, its optimiser's state, and the rule that turns workers'
// gradients into updates. It sends no messages: the caller hands over a gradient and awaits new weights.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "ripieno/core/async.h"
#include "ripieno/numeric/numbers.h"
#include "ripieno/strategy/strategy.h"

namespace ripieno::strategy {

/// Whom a worker waits for.
enum class Pace : std::uint8_t {
  together,  ///< all others, every step
  own,       ///< nobody
  bounded,   ///< workers that are more than Plan::servers.staleness steps behind
};

/// What a worker sends with a gradient, or at the end of the user's loop, whose steps nobody knows before.
struct Push {
  static constexpr std::int64_t no_more = -1;  ///< the step of the push that ends the loop, which has no gradient

  double loss = 0;  ///< mean over the samples; NaN without any
  std::uint32_t samples = 0;
  std::uint32_t finite = 1;  ///< 0: the gradient overflowed in some shard, so that no shard may use it
  std::int64_t step = 0;     ///< the worker's, from 0 over the whole run: a shard applies each step of a worker once
};

/// What a shard sends with its weights.
struct ShardAnswer {
  std::int64_t age = 0;       ///< of the gradient (parameter_server.h)
  std::uint64_t applied = 1;  ///< whether the shard used the gradient
};

/// A push that became an update. Replaying the finite ones in the shard's order gives its weights.
struct Applied {
  int worker;  ///< with Pace::together: the last worker of the round
  std::int64_t step;
  NumberSpan gradient;  ///< the gradient that the optimiser stepped on
  double rate;
};

/// Each worker's samples and steps in an epoch.
struct WorkersWork {
  std::vector<double> samples;
  std::vector<std::uint32_t> steps;
};

/// A copy of a shard at the end of an epoch.
struct Snapshot {
  std::uint32_t epoch = 0;
  std::shared_ptr<numeric::Numbers> weights, buffers;  ///< null: the end of the snapshots
};

class ServerShard {
 public:
  /// A shard of `numbers` weights; `buffers` > 0 on the shard that keeps the buffers.
  ServerShard(const Plan& plan, Pace pace, std::size_t numbers, std::size_t buffers, DType type, Workplace& place);

  NumberSpan weights() { return weights_.span(); }
  NumberSpan buffers() { return buffers_.span(); }

  /// Call it once, before the first push. `records`: whether the shard records its steps.
  void begin(const WorkersWork& work, bool records);

  /// Takes one worker's gradient, weighted and divided by the loss scale. Returns when the worker may go on, with
  /// `weights` filled; `weights` may be the memory of `gradient`. A step that was applied before gets the same answer
  /// and is not applied again. Throws the error given to give_up(), and Error(mismatch) on a step that is not the
  /// worker's next.
  Task<ShardAnswer> exchange(int worker, Push push, NumberSpan gradient, NumberSpan buffers, NumberSpan weights);

  /// The worker has the answer to its last push.
  void answered(int worker);
  /// Pace::together: returns when all workers have been answered, so that nothing of the last round is under way.
  Task<> all_answered();

  /// The worker makes no more pushes: its loop has ended.
  void end_worker(int worker);

  /// A snapshot after each epoch to evaluate and one at the end of training, then one without weights.
  Queue<Snapshot>& snapshots() { return snapshots_; }
  /// If set, called with each update before it changes the weights.
  std::function<void(const Applied&)> on_applied;
  /// Pace::together: if set, called after each epoch, when all workers have been answered.
  std::function<void(std::uint32_t epoch)> on_epoch;
  /// Pace::together: if set, awaited before each update.
  std::function<Task<>()> before_update;

  /// All waiting calls throw the error. Pushes of an unfinished round are forgotten; workers may push them again.
  void interrupt(std::exception_ptr error);
  /// As interrupt(), and all later pushes throw the error too.
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
  void end_round();
  ShardAnswer apply(int worker, const Arrival& arrival);
  Task<> wait_turn(int worker);
  std::int64_t lead(int worker) const;
  bool has_ended(int worker) const { return clocks_[worker] == totals_[worker]; }

  double update(int worker, const Push& push, NumberSpan gradient);
  void record(const Push& push, double rate, std::optional<std::int64_t> age);
  void advance(double by);
  void snapshot(std::uint32_t epoch);
  void end_where_all_have();
  void wake_waiting();

  Plan plan_;
  Pace pace_;
  Runtime& runtime_;
  observe::Recorder& recorder_;
  const UsersLoop* const loop_;
  numeric::Numbers weights_, buffers_;
  std::unique_ptr<optim::Optimiser> optimiser_;
  optim::LearningRate learning_rate_;
  bool records_ = false;
  std::int64_t version_ = 0;  // updates that the weights have had
  std::int64_t steps_ = 0;    // updates, and pushes that were not finite

  std::vector<std::int64_t> begins_;           // of each worker: the step of its first push
  std::vector<std::int64_t> totals_, clocks_;  // of each worker: pushes in all, and so far
  std::vector<ShardAnswer> answers_;           // of each worker: to its last push
  std::vector<std::int64_t>
      pulled_;  // of each worker at its last pull: the version (Pace::own) or its lead (Pace::bounded)
  std::vector<std::shared_ptr<Event>> waiting_;

  std::vector<Arrival> arrived_;  // Pace::together: of the round
  int arrivals_ = 0;
  std::uint64_t round_applied_ = 0;
  numeric::Numbers sum_;
  std::shared_ptr<Event> round_;
  std::set<int> owed_;  // the workers that have not been answered in the last round
  std::shared_ptr<Event> answered_;
  std::optional<std::uint32_t> ended_epoch_;  // with that round

  double per_epoch_ = 0, done_ = 0;  // in rounds (Pace::together), else in samples
  double snapshot_at_ = -1;
  std::uint32_t epochs_seen_ = 0;
  Queue<Snapshot> snapshots_;
  std::exception_ptr error_;
};

/// A worker's steps from the plan's first epoch to its end.
std::int64_t steps_in_all(const Plan& plan, std::uint32_t per_epoch);

}  // namespace ripieno::strategy
