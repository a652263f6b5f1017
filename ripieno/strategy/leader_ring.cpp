#include "ripieno/strategy/leader_ring.h"

#include <cmath>
#include <numeric>

#include "ripieno/collective/execute.h"
#include "ripieno/core/numbers.h"
#include "ripieno/membership/election.h"
#include "ripieno/strategy/steps.h"
#include "ripieno/strategy/synchronous.h"
#include "ripieno/strategy/together.h"

namespace ripieno {
namespace {

class LeaderRing final : public Strategy {
 public:
  LeaderRing(const StrategyInfo& info, const Plan& plan, Workplace workplace)
      : plan_(plan),
        place_(std::move(workplace)),
        everyone_(place_.comm.size()),
        ring_(place_.comm),
        layout_(place_.learner.layout()),
        averager_(averager_of(info, plan, slots_of(layout_, layout_.buckets), layout_.type)),
        optimiser_(make_optimiser(plan.optimiser, layout_.parameters, layout_.type)),
        learning_rate_(plan.learning_rate, plan.epochs, plan.rate_scale),
        average_(layout_.parameters, layout_.type),
        buffers_(layout_.buffers, layout_.type) {}

  Task<> run() override {
    co_await start_alike(place_.comm, place_.learner);  // 1
    co_await elect_leader();
    place_.recorder.begin();
    std::int64_t item = 0;  // steps and epochs' ends, in the order in which every rank comes to them
    for (Steps at(plan_, place_.learner.steps_per_epoch()); at.more(); at.next()) {
      const double rate = learning_rate_.at(at.epochs_done());
      PassResult result;
      for (++item; done_ < item;) co_await survive(take_step(at.batch(), item, &result));
      step_if_finite(place_, *optimiser_, rate);  // 4
      place_.recorder.step({at.epoch(), at.step(), result.loss, result.samples, rate, {}});
      if (!at.ends_epoch()) continue;
      const bool evaluates = evaluates_after(plan_, at.epoch(), at.ends());
      ending_ = true;
      for (++item; done_ < item;) co_await survive(end_epoch(evaluates, item));
      ending_ = false;
      place_.recorder.epoch({at.epoch(), score_.accuracy, score_.loss, hash(place_.learner.parameters()), NAN});
      if (place_.checkpoint && !at.ends_early()) place_.checkpoint(at.epoch());
    }
  }

  NumberSpan consensus() override { return place_.learner.parameters(); }
  void visit(StateVisitor& visitor) override {
    optimiser_->visit(visitor);
    averager_->visit(visitor);
  }

 private:
  Task<> elect_leader() {
    Communicator comm = place_.comm;
    std::vector<int> alive;
    for (int i = 0; i < comm.size(); ++i) alive.push_back(comm.member(i));
    const Channel channel = comm.channel(comm.take_channels(), Purpose::control);
    const int leader = co_await elect(comm.shared_endpoint(), alive, channel);
    const auto at = static_cast<int>(std::lower_bound(alive.begin(), alive.end(), leader) - alive.begin());
    const auto ring = co_await comm.split(0, (comm.rank() - at + comm.size()) % comm.size());
    ring_ = *ring;
  }

  /// 2 and 3. The gradients become the average.
  Task<> take_step(BatchId batch, std::int64_t item, PassResult* result) {
    Learner& learner = place_.learner;
    const auto pass = co_await learner.begin(batch, unweighted);  // 2
    *result = co_await pass->finish();
    double samples = result->global_samples;
    if (place_.comm.size() < everyone_) {
      const std::int64_t own = result->samples, all = co_await place_.comm.all_reduce(own);
      samples = static_cast<double>(all);
    }
    const double loss_scale = learner.loss_scale() ? learner.loss_scale()->value() : 1;
    const double weight = samples > 0 ? result->samples / samples / loss_scale : 0;
    for (std::size_t i = 0; i < layout_.buckets.size(); ++i) {  // 3
      const StageTimer timer(place_.recorder, place_.comm.runtime(), Stage::exchange, i);
      const Range bucket = layout_.buckets[i];
      co_await averager_->average(ring_, i, learner.gradients().slice(bucket.begin, bucket.end), weight);
    }
    convert(average_.span(), learner.gradients());
    done_ = item;
  }

  /// An average that a death breaks off leaves parts of sums behind: it is taken anew from what the buffers were.
  Task<> end_epoch(bool evaluates, std::int64_t item) {
    const auto before = copy_of(place_.learner.buffers());
    try {
      co_await average_and_evaluate(evaluates);
    } catch (...) {
      convert(place_.learner.buffers(), before->span());
      throw;
    }
    convert(buffers_.span(), place_.learner.buffers());
    done_ = item;
  }

  Task<> average_and_evaluate(bool evaluates) {
    co_await average_buffers(place_.comm, place_.learner);
    Score score{NAN, NAN};
    if (evaluates) {
      const StageTimer timer(place_.recorder, place_.comm.runtime(), Stage::evaluate);
      score = co_await evaluate_together(place_.comm, place_.learner);
    }
    score_ = score;
  }

  /// Runs work that ends early when a rank dies; then the survivors get together again.
  Task<> survive(Task<> work) {
    std::exception_ptr loss = co_await lost_in(std::move(work));
    while (loss) {
      try {
        place_.comm = place_.comm.survivors();
      } catch (const Error&) {  // this rank is the one that died, or the transport cannot go on
        std::rethrow_exception(loss);
      }
      loss = co_await lost_in(get_together());
    }
  }

  static Task<std::exception_ptr> lost_in(Task<> work) {
    std::exception_ptr loss;
    try {
      co_await std::move(work);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::peer) throw;
      loss = std::current_exception();
    }
    co_return loss;
  }

  /// 5. Who has come further than another hands over what that one misses: the last average, or an epoch's score and buffers.
  Task<> get_together() {
    co_await elect_leader();
    Communicator comm = place_.comm;
    const std::vector<std::int64_t> progress = co_await comm.all_gather(done_);
    const auto furthest = std::max_element(progress.begin(), progress.end());
    if (*std::min_element(progress.begin(), progress.end()) == *furthest) co_return;

    const bool missed = done_ < *furthest;
    const int root = static_cast<int>(furthest - progress.begin());
    score_ = co_await comm.broadcast(score_, root);
    ExecuteOptions exchange{layout_.type, Purpose::exchange};
    exchange.root = root;
    co_await broadcast(comm, average_.span(), exchange);
    co_await broadcast(comm, buffers_.span(), exchange);
    convert(place_.learner.gradients(), average_.span());
    if (ending_ && missed) convert(place_.learner.buffers(), buffers_.span());
    done_ = *furthest;
  }

  Plan plan_;
  Workplace place_;  // its group: the ranks that are alive
  int everyone_;     // ranks at the start
  Communicator ring_;       // the same, from the leader on
  const Layout& layout_;
  std::unique_ptr<Averager> averager_;
  std::unique_ptr<Optimiser> optimiser_;
  LearningRate learning_rate_;
  std::int64_t done_ = 0;  // items that this rank has the outcome of
  bool ending_ = false;    // the next one is an epoch's end
  Numbers average_;        // the last step's
  Numbers buffers_;        // the last epoch's mean
  Score score_{NAN, NAN};  // the last epoch's
};

}  // namespace

std::unique_ptr<Strategy> make_leader_ring(const StrategyInfo& info, const Plan& plan, Workplace workplace) {
  return std::make_unique<LeaderRing>(info, plan, std::move(workplace));
}

std::optional<std::uint64_t> leader_ring_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                    const Workload& work, int rank) {
  const int leader = work.world.ranks - 1;
  return synchronous_bytes_sent(info, plan, layout, work, (rank - leader + work.world.ranks) % work.world.ranks);
}

}  // namespace ripieno
