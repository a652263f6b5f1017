#include "ripieno/strategy/leader_ring.h"

#include <algorithm>

#include "ripieno/membership/election.h"
#include "ripieno/strategy/alike.h"
#include "ripieno/strategy/synchronous.h"

namespace ripieno::strategy {
namespace {

class LeaderRing final : public Alike {
 public:
  LeaderRing(const StrategyInfo& info, const Plan& plan, Workplace workplace)
      : Alike(info, plan, std::move(workplace)), everyone_(place_.comm.size()), ring_(place_.comm) {
    if (!place_.regroup) place_.regroup = survivors_of;
  }

 private:
  /// Throws on a dead rank, and if the transport cannot go on without the dead ranks.
  static Task<collective::Communicator> survivors_of(collective::Communicator ended) {
    collective::Communicator alive = co_await ended.survivors();
    if (alive.size() == ended.size()) fail(ErrorKind::peer, "nobody has died: there is nobody to go on without");
    co_return alive;
  }

  Task<> start() override {
    co_await Alike::start();  // 1
    co_await elect_leader();
  }

  Task<> elect_leader() {
    collective::Communicator comm = place_.comm;
    std::vector<int> alive;
    for (int i = 0; i < comm.size(); ++i) alive.push_back(comm.member(i));
    const transport::Channel channel = comm.channel(comm.take_channels(), observe::Purpose::control);
    const int leader = co_await membership::elect(comm.shared_endpoint(), alive, channel);
    const auto at = static_cast<int>(std::lower_bound(alive.begin(), alive.end(), leader) - alive.begin());
    const auto ring = co_await comm.split(0, (comm.rank() - at + comm.size()) % comm.size());
    ring_ = *ring;
    comm.takes_along(ring_);
  }

  Task<> attempt(TrainingStep step, StepResult* result) override {
    Learner& learner = place_.learner;
    const auto pass = co_await learner.begin(step.batch, unweighted);  // 2
    static_cast<PassResult&>(*result) = co_await pass->finish();
    double samples = result->global_samples;
    if (place_.comm.size() < everyone_) {
      const std::int64_t own = result->samples, all = co_await place_.comm.all_reduce(own);
      samples = static_cast<double>(all);
    }
    const double weight = samples > 0 ? result->samples / samples / loss_scale() : 0;
    for (std::size_t i = 0; i < layout_.buckets.size(); ++i) {  // 3
      const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::exchange, i);
      const Range bucket = layout_.buckets[i];
      co_await averager_->average(ring_, i, learner.gradients().slice(bucket.begin, bucket.end), weight);
    }
  }

  /// 5
  Task<bool> recover(BrokenOff what) override {
    co_await elect_leader();
    co_return co_await Alike::recover(what);
  }

  const int everyone_;             // the number of ranks at the start
  collective::Communicator ring_;  // the ranks in ring order, from the leader on
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

}  // namespace ripieno::strategy
