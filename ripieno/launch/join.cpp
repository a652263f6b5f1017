#include "ripieno/launch/join.h"

#include <nlohmann/json.hpp>

#include "ripieno/launch/control.h"
#include "ripieno/launch/descriptors.h"
#include "ripieno/membership/meet.h"
#include "ripieno/transport/transports.h"

namespace ripieno {
namespace {

Task<PeerSockets> connect(Runtime* runtime, Meeting meeting) {
  if (meeting.world_size == 1) co_return PeerSockets(1);
  Task<PeerSockets> meeting_all = meet(*runtime, meeting);
  co_return co_await std::move(meeting_all);
}

Task<> join_through(const Transport* transport, Joining joining, std::shared_ptr<Endpoint>* made) {
  Task<std::shared_ptr<Endpoint>> making = transport->join(std::move(joining));
  *made = co_await std::move(making);
}

/// Error(usage): it is not one through which processes join each other.
const Transport& real_transport(const std::string& name) {
  const Transport& transport = find_transport(name);
  if (transport.is_virtual()) {
    fail(ErrorKind::usage, "transport ", name,
         " runs all ranks of a job in one process, in virtual time: workers cannot join through it");
  }
  return transport;
}

Meeting meeting_of(const Placement& place, const JoinOptions& options) {
  Meeting meeting;
  meeting.address = place.rendezvous;
  meeting.token = place.token;
  meeting.rank = place.rank;
  meeting.world_size = place.world_size;
  meeting.digest = options.digest;
  meeting.timeout = options.meeting;
  meeting.listen = place.listen;
  return meeting;
}

/// Tells the launcher that this worker has lost a peer: should it end now, it is not the cause.
void tell_launcher(int control_fd, std::shared_ptr<Control>& control) {
  if (!control) control = std::make_shared<Control>(control_fd);
  control->send({{"type", "lost-peer"}});
}

}  // namespace

Cluster join(const Placement& place, const JoinOptions& options) {
  refuse_foreign_world(place);
  const Transport& transport = real_transport(options.transport);
  const auto descriptors = 2 * static_cast<std::size_t>(place.world_size) + 16;
  make_room_for_descriptors(descriptors, text("rank ", place.rank, " of ", place.world_size));
  Cluster cluster;
  cluster.runtime = real_runtime(options.seed);
  Runtime* const runtime = cluster.runtime.get();
  Joining joining{*runtime, place.rank, place.world_size};
  joining.connect = [runtime, meeting = meeting_of(place, options)] { return connect(runtime, meeting); };
  joining.link.timeout = options.timeout;
  joining.agreement = options.meeting;
  joining.shares_memory = options.shared_memory && place.shared_memory;
  std::shared_ptr<Endpoint> endpoint;
  runtime->spawn(text("rank ", place.rank, " joins"), join_through(&transport, std::move(joining), &endpoint));
  runtime->run();
  if (options.shape.delay.count() > 0 || options.shape.mbit_s > 0)
    endpoint = shaped(std::move(endpoint), options.shape);
  cluster.endpoint = std::make_shared<CountedEndpoint>(std::move(endpoint));
  cluster.on_peer_error = [fd = place.control_fd, control = std::shared_ptr<Control>()](const Error&) mutable {
    tell_launcher(fd, control);
  };
  return cluster;
}

}  // namespace ripieno
