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

}  // namespace

Members::Members(transport::Cluster joined)
    : cluster(std::move(joined)),
      comm(cluster.endpoint),
      tuning(tuning_for(comm)),
      messages(std::make_shared<TaggedMessages>(cluster.endpoint)),
      order(std::make_shared<OperationOrder>(comm, lanes)),
      roots(std::make_shared<RootCheck>(comm)) {
  cluster.progress();
}

}  // namespace ripieno::c10d
