#include "ripieno/launch/join.h"

#include <nlohmann/json.hpp>

#include "ripieno/launch/control.h"
#include "ripieno/launch/descriptors.h"
#include "ripieno/membership/meet.h"
#include "ripieno/transport/shared_endpoint.h"

namespace ripieno {
namespace {

using Sockets = std::vector<std::optional<asio::ip::tcp::socket>>;

Task<> meet_others(Runtime* runtime, Meeting meeting, Sockets* sockets) { *sockets = co_await meet(*runtime, meeting); }

Task<> choose_ways(Runtime* runtime, int rank, Sockets sockets, SharedOptions options, std::shared_ptr<Endpoint>* made) {
  Task<std::shared_ptr<Endpoint>> making = shared_endpoint(*runtime, rank, std::move(sockets), options);
  *made = co_await std::move(making);
}

/// Tells the launcher that this worker has lost a peer: should it end now, it is not the cause.
void tell_launcher(int control_fd, std::shared_ptr<Control>& control) {
  if (!control) control = std::make_shared<Control>(control_fd);
  control->send({{"type", "lost-peer"}});
}

}  // namespace

Cluster join(const Placement& place, const JoinOptions& options) {
  refuse_foreign_world(place);
  make_room_for_descriptors(2 * static_cast<std::size_t>(place.world_size) + 16, text("rank ", place.rank, " of ", place.world_size));
  Cluster cluster;
  cluster.runtime = real_runtime(options.seed);
  Sockets sockets(static_cast<std::size_t>(place.world_size));
  if (place.world_size > 1) {
    Meeting meeting;
    meeting.address = place.rendezvous;
    meeting.token = place.token;
    meeting.rank = place.rank;
    meeting.world_size = place.world_size;
    meeting.digest = options.digest;
    meeting.timeout = options.meeting;
    meeting.listen = place.listen;
    cluster.runtime->spawn(text("rank ", place.rank, "'s meeting"), meet_others(cluster.runtime.get(), meeting, &sockets));
    cluster.runtime->run();
  }
  SharedOptions ways;
  ways.tcp.timeout = options.timeout;
  ways.agreement = options.meeting;
  ways.shares = options.shared_memory && place.shared_memory;
  std::shared_ptr<Endpoint> endpoint;
  cluster.runtime->spawn(text("rank ", place.rank, "'s choice of ways"),
                         choose_ways(cluster.runtime.get(), place.rank, std::move(sockets), ways, &endpoint));
  cluster.runtime->run();
  if (options.shape.delay.count() > 0 || options.shape.mbit_s > 0) endpoint = shaped(std::move(endpoint), options.shape);
  cluster.endpoint = std::make_shared<CountedEndpoint>(std::move(endpoint));
  cluster.on_peer_error = [fd = place.control_fd, control = std::shared_ptr<Control>()](const Error&) mutable {
    tell_launcher(fd, control);
  };
  return cluster;
}

}  // namespace ripieno
