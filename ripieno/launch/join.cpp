#include "ripieno/launch/join.h"

#include <fcntl.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <span>

#include "ripieno/launch/control.h"
#include "ripieno/launch/descriptors.h"
#include "ripieno/launch/environment.h"
#include "ripieno/launch/failure.h"
#include "ripieno/launch/open_rendezvous.h"
#include "ripieno/rendezvous/greeting.h"
#include "ripieno/rendezvous/interfaces.h"
#include "ripieno/rendezvous/meet.h"
#include "ripieno/transport/transports.h"

namespace ripieno::launch {
namespace {

Task<> serve(std::shared_ptr<OpenRendezvous> rendezvous) {
  Task<> serving = rendezvous->serve();
  co_await std::move(serving);
}

Task<transport::PeerSockets> connect(Runtime* runtime, Placement place, rendezvous::Meeting meeting) {
  if (!place.cannot_meet.empty()) fail(ErrorKind::usage, place.cannot_meet);
  if (meeting.world_size == 1) co_return transport::PeerSockets(1);
  const std::shared_ptr<const void> claim = place.invitation ? place.invitation->claim(place.rank) : nullptr;
  std::shared_ptr<OpenRendezvous> rendezvous;
  if (place.opens_rendezvous) {
    rendezvous = std::make_shared<OpenRendezvous>(*runtime, place, meeting.timeout);
    rendezvous->invite(&meeting);
    runtime->spawn("rendezvous", serve(rendezvous));
  }
  Task<transport::PeerSockets> meeting_all = rendezvous::meet(*runtime, meeting);
  co_return co_await std::move(meeting_all);
}

/// What the rendezvous does for ranks that meet there: each compares its recipe with the rank's before it.
Task<> compare_recipes(transport::Endpoint* endpoint, std::uint64_t digest) {
  const int rank = endpoint->rank(), size = endpoint->size();
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  std::uint64_t theirs = digest;
  const transport::Message message{{observe::Purpose::control, 0, 0}, "recipe", DType::uint8, sizeof digest};
  const transport::Outgoing out{next, message, std::as_bytes(std::span(&digest, 1))};
  const transport::Incoming in{previous, message, std::as_writable_bytes(std::span(&theirs, 1))};
  auto revoke = [endpoint, next, previous](std::exception_ptr error) { endpoint->abort(0, {next, previous}, error); };
  Task<> exchange = endpoint->exchange(out, in, revoke);
  co_await std::move(exchange);
  if (theirs != digest) fail(ErrorKind::mismatch, rendezvous::other_recipe(rank, digest, previous, theirs));
}

Task<> join_through(const transport::Transport* transport, transport::Joining joining, Placement place,
                    rendezvous::Meeting meeting, std::shared_ptr<transport::Endpoint>* made) {
  bool has_met = false;
  joining.connect = [&has_met, runtime = &joining.runtime, place, meeting] {
    has_met = true;
    return connect(runtime, place, meeting);
  };
  Task<std::shared_ptr<transport::Endpoint>> making = transport->join(std::move(joining));
  *made = co_await std::move(making);
  if (has_met || (*made)->size() == 1) co_return;
  Task<> comparing = compare_recipes(made->get(), meeting.digest);
  co_await std::move(comparing);
}

/// Variables that say how workers reach each other are for those that meet.
void refuse_idle_variables(const transport::Transport& transport) {
  if (transport.meets()) return;
  for (const char* const name : {"RIPIENO_LISTEN", "RIPIENO_SHARED_MEMORY"}) {
    const auto value = variable(name);
    if (!value) continue;
    fail(ErrorKind::usage, name, " is ", *value, ", which has no effect with transport ", transport.name,
         ", whose launcher's library chooses the way to each worker: leave it unset");
  }
}

/// Error(usage): it is not a transport of real time.
const transport::Transport& real_transport(const std::string& name) {
  const transport::Transport& transport = transport::find_transport(name);
  if (transport.is_virtual()) {
    fail(ErrorKind::usage, "transport ", name,
         " runs all ranks of a job in one process, in virtual time: workers cannot join through it");
  }
  return transport;
}

rendezvous::Meeting meeting_of(const Placement& place, const JoinOptions& options) {
  rendezvous::Meeting meeting;
  meeting.address = place.rendezvous;
  meeting.token = place.token;
  meeting.invitation = place.invitation;
  meeting.rank = place.rank;
  meeting.world_size = place.world_size;
  meeting.digest = options.digest;
  meeting.timeout = options.meeting;
  meeting.listen = place.listen;
  meeting.on_wait = [](const std::string& why) { std::cerr << text("ripieno: note: ", why, "\n") << std::flush; };
  return meeting;
}

std::string listens_at(const Placement& place, const std::string& interface) {
  if (interface.empty()) return place.listen;
  std::string address = rendezvous::address_of_interface(interface);
  if (const auto other = variable("RIPIENO_LISTEN"); other && *other != everywhere && place.listen != address) {
    fail(ErrorKind::usage, "transport.interface = ", interface, " has the address ", address,
         ", but RIPIENO_LISTEN is ", *other, ": set one of them");
  }
  return address;
}

transport::MpiChoice mpi_of(const Placement& place) {
  transport::MpiChoice mpi{place.mpi, "", text(place.launcher, ": ", place.read), place.mpi_plugin};
  if (!mpi.kind.empty()) return mpi;
  mpi.unknown =
      place.launcher == "srun"
          ? "srun has started this one without a PMI; use srun --mpi=pmix (Open MPI) or srun --mpi=pmi2 (MPICH)"
          : text("none has started this one (", place.launcher, place.read.empty() ? "" : ": ", place.read,
                 "); use mpirun or srun, or leave transport.kind at tcp");
  return mpi;
}

/// Tells the launcher that this worker has lost a peer: if it fails now, it is not the cause.
void tell_launcher(int control_fd, std::shared_ptr<Control>& control, const Loss& loss) {
  if (!control) control = std::make_shared<Control>(control_fd);
  control->deliver({{"type", "lost-peer"}, {"loss", to_json(loss)}});
}

}  // namespace

transport::Cluster join(const Placement& placement, const JoinOptions& options) {
  Placement place = placement;
  place.listen = listens_at(placement, options.interface);
  if (place.control_fd >= 0) ::fcntl(place.control_fd, F_SETFD, FD_CLOEXEC);  // until now programs passed it on
  const transport::Transport& transport = real_transport(options.transport);
  refuse_idle_variables(transport);
  const auto descriptors = 3 * static_cast<std::size_t>(place.world_size) + 16;
  make_room_for_descriptors(descriptors, text("rank ", place.rank, " of ", place.world_size));
  transport::Cluster cluster;
  cluster.runtime = real_runtime(options.seed);
  Runtime* const runtime = cluster.runtime.get();
  transport::Joining joining{*runtime, place.rank, place.world_size};
  joining.link.timeout = options.timeout;
  joining.agreement = options.meeting;
  joining.mpi = mpi_of(place);
  joining.shares_memory = options.shared_memory && place.shared_memory;
  std::shared_ptr<transport::Endpoint> endpoint;
  runtime->spawn(text("rank ", place.rank, " joins"),
                 join_through(&transport, std::move(joining), place, meeting_of(place, options), &endpoint));
  runtime->run();
  if (options.shape.delay.count() > 0 || options.shape.mbit_s > 0)
    endpoint = transport::shaped(std::move(endpoint), options.shape);
  cluster.endpoint = std::make_shared<transport::CountedEndpoint>(std::move(endpoint));
  cluster.on_loss = [fd = place.control_fd, control = std::shared_ptr<Control>()](const Loss& loss) mutable {
    tell_launcher(fd, control, loss);
  };
  return cluster;
}

}  // namespace ripieno::launch
