#include "ripieno/launch/join.h"

#include "ripieno/membership/meet.h"
#include "ripieno/transport/tcp.h"

namespace ripieno {
namespace {

using Sockets = std::vector<std::optional<asio::ip::tcp::socket>>;

Task<> meet_others(Runtime* runtime, Meeting meeting, Sockets* sockets) { *sockets = co_await meet(*runtime, meeting); }

}  // namespace

Cluster join(const Placement& place, const JoinOptions& options) {
  Cluster cluster;
  cluster.runtime = real_runtime(options.seed);
  Sockets sockets(static_cast<std::size_t>(place.world_size));
  if (!place.rendezvous.empty()) {
    Meeting meeting;
    meeting.address = place.rendezvous;
    meeting.token = place.token;
    meeting.rank = place.rank;
    meeting.world_size = place.world_size;
    meeting.digest = options.digest;
    meeting.timeout = options.meeting;
    cluster.runtime->spawn(text("rank ", place.rank, "'s meeting"), meet_others(cluster.runtime.get(), meeting, &sockets));
    cluster.runtime->run();
  }
  TcpOptions tcp;
  tcp.timeout = options.timeout;
  cluster.endpoint = std::make_shared<CountedEndpoint>(tcp_endpoint(*cluster.runtime, place.rank, std::move(sockets), tcp));
  return cluster;
}

}  // namespace ripieno
