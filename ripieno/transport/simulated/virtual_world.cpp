#include "ripieno/transport/simulated/virtual_world.h"

#include "ripieno/transport/linked_endpoint.h"

namespace ripieno::transport {
namespace {

constexpr std::uint64_t delays = 0x64656C617973;  // the stream of random numbers: "delays"

std::exception_ptr killed(int rank) {
  return std::make_exception_ptr(Error(Loss{rank, Lost::ended}, text("rank ", rank, " was killed")));
}

}  // namespace

VirtualWorld::VirtualWorld(Runtime& runtime, int ranks, LinkedNetworkOptions options)
    : runtime_(runtime),
      options_(options),
      random_(runtime.random(delays)),
      places_(static_cast<std::size_t>(ranks)),
      ways_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks)) {}

std::shared_ptr<LinkedEndpoint> VirtualWorld::endpoint(int rank) {
  Place& own = place(rank);
  require(!own.aborts, "rank ", rank, " has an endpoint already");
  own.aborts = std::make_shared<Aborts>(rank);
  own.links.resize(places_.size());
  std::vector<std::shared_ptr<PeerLink>> links(places_.size());
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank) continue;
    const auto link =
        std::make_shared<VirtualLink>(runtime_, rank, peer, options_.link, own.aborts, shared_from_this());
    own.links[static_cast<std::size_t>(peer)] = link;
    links[static_cast<std::size_t>(peer)] = link;
  }
  return std::make_shared<LinkedEndpoint>(runtime_, rank, std::move(links), own.aborts);
}

void VirtualWorld::at(Duration when, int rank, std::function<void(VirtualWorld&)> arrival) {
  runtime_.call_at(when, [weak = weak_from_this(), rank, arrival = std::move(arrival)] {
    const auto world = weak.lock();
    if (!world || world->is_closed_ || world->is_dead(rank)) return;
    const Duration until = world->asleep_until(rank);
    if (until > world->runtime_.now()) return world->at(until, rank, arrival);
    arrival(*world);
  });
}

bool VirtualWorld::has_room(int from, int to) const {
  const auto receiver = place(to).links.empty() ? nullptr : place(to).links[static_cast<std::size_t>(from)].lock();
  return way(from, to).under_way + (receiver ? receiver->kept() : 0) < options_.link.unasked_bytes;
}

Duration VirtualWorld::send(int from, int to, const Frame& frame, ConstBytes payload) {
  Place& sender = place(from);
  if (sender.dies_at && sender.sent >= *sender.dies_at) {
    kill(from);
    return runtime_.now();
  }
  ++sender.sent;
  Way& path = way(from, to);
  const std::size_t bytes = frame_bytes + payload.size();
  const Duration begin = std::max({runtime_.now(), sender.asleep_until, path.free});
  path.free = begin + options_.time.per_byte * static_cast<std::int64_t>(bytes);
  const auto most = static_cast<std::uint64_t>(options_.jitter.count());
  const Duration drawn(most > 0 ? static_cast<std::int64_t>(random_.below(most + 1)) : 0);
  Duration& last = path.last_on[frame.channel];
  last = std::max(last, path.free + options_.time.latency + drawn);
  path.last = std::max(path.last, last);
  if (path.is_cut) return path.free;
  std::vector<std::byte> copy(payload.size());
  if (payload.data()) std::copy(payload.begin(), payload.end(), copy.begin());
  path.under_way += bytes;
  const auto arrives = [from, to, frame, bytes, left = path.free, copy = std::move(copy)](VirtualWorld& world) mutable {
    Way& path = world.way(from, to);
    path.under_way -= bytes;
    const bool has_left = !world.is_dead(from) || left <= world.place(from).died;
    const auto receiver = world.link(to, from);
    if (receiver && has_left && !path.is_cut) receiver->arrive(frame, copy);
    if (const auto link = world.link(from, to)) link->send_queued();
  };
  at(last, to, arrives);
  return path.free;
}

void VirtualWorld::took(int rank, int peer) {
  if (const auto link = this->link(peer, rank)) link->send_queued();
}

void VirtualWorld::end(int from, int to) {
  Way& path = way(from, to);
  if (std::exchange(path.has_ended, true) || is_closed_) return;
  at(std::max(path.last, runtime_.now() + options_.time.latency), to, [from, to](VirtualWorld& world) {
    const auto receiver = world.link(to, from);
    if (receiver && !world.way(from, to).is_cut) receiver->peer_ended();
  });
}

void VirtualWorld::kill(int rank) {
  Place& own = place(rank);
  if (std::exchange(own.is_dead, true)) return;
  own.died = runtime_.now();
  for (int peer = 0; peer < ranks(); ++peer) {
    if (const auto link = peer == rank ? nullptr : this->link(rank, peer)) link->revoke(killed(rank));
  }
  if (watcher_) watcher_(rank);
}

void VirtualWorld::stall(int rank, Duration how_long) {
  Duration& until = place(rank).asleep_until;
  until = std::max(until, runtime_.now() + how_long);
}

void VirtualWorld::close() { is_closed_ = true; }

LinkedNetwork::LinkedNetwork(Runtime& runtime, int ranks, LinkedNetworkOptions options)
    : world_(std::make_shared<VirtualWorld>(runtime, ranks, options)) {}
LinkedNetwork::~LinkedNetwork() { world_->close(); }
std::shared_ptr<LinkedEndpoint> LinkedNetwork::linked(int rank) { return world_->endpoint(rank); }
void LinkedNetwork::kill(int rank) { world_->kill(rank); }
void LinkedNetwork::kill_at_message(int rank, std::uint64_t messages) { world_->kill_at_message(rank, messages); }
void LinkedNetwork::watch_deaths(std::function<void(int rank)> watcher) { world_->watch_deaths(std::move(watcher)); }
bool LinkedNetwork::dead(int rank) const { return world_->is_dead(rank); }
std::uint64_t LinkedNetwork::sent(int rank) const { return world_->sent(rank); }
void LinkedNetwork::stall(int rank, Duration how_long) { world_->stall(rank, how_long); }
void LinkedNetwork::cut(int from, int to) { world_->cut(from, to); }

}  // namespace ripieno::transport
