#include "ripieno/c10d/members.h"

namespace ripieno::c10d {
namespace {

/// The links that exchanges by messages are cut for (collective/tune.h): 10 Gb/s. Nothing is measured, which would take
/// every new group 0.1 s.
constexpr transport::LinkModel usual_link{std::chrono::microseconds(25), Duration(800)};
constexpr std::uint64_t usual_bytes = 25'000'000;  // a bucket of DistributedDataParallel

std::shared_ptr<const collective::Tuning> tuning_for(const collective::Communicator& comm) {
  return std::make_shared<const collective::Tuning>(
      comm.size() > 1 ? collective::tune(comm.world(), usual_bytes, usual_link) : collective::Tuning{});
}

/// If this process ends because of a loss, the lost rank is the cause. `global`: each member's rank in the job; empty:
/// they are the same.
void tell_launcher_of_losses(const transport::Cluster& cluster, const std::vector<std::uint64_t>& global) {
  const auto in_job = [global](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    return rank >= 0 && at < global.size() ? static_cast<int>(global[at]) : rank;
  };
  const auto tell = [in_job, tell = cluster.on_loss](transport::Scope, const std::exception_ptr& error) {
    const std::optional<Loss> loss = loss_of(error);
    if (!loss) return;
    const auto told_by = loss->told_by ? std::optional(in_job(*loss->told_by)) : std::nullopt;
    tell({in_job(loss->rank), loss->how, told_by});
  };
  if (cluster.on_loss) cluster.endpoint->watch_aborts(tell);
}

}  // namespace

Members::Members(transport::Cluster joined, const std::vector<std::uint64_t>& global)
    : cluster(std::move(joined)),
      comm(cluster.endpoint),
      tuning(tuning_for(comm)),
      messages(std::make_shared<TaggedMessages>(cluster.endpoint)),
      order(std::make_shared<OperationOrder>(comm, lanes)),
      roots(std::make_shared<RootCheck>(comm)) {
  tell_launcher_of_losses(cluster, global);
  cluster.progress();
}

}  // namespace ripieno::c10d
