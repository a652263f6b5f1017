// What the links of a LinkedNetwork share: which messages are on their way, and which ranks are dead, asleep or cut
// off.
#pragma once

#include <map>
#include <optional>

#include "ripieno/transport/simulated/linked_network.h"
#include "ripieno/transport/simulated/virtual_link.h"

namespace ripieno::transport {

class VirtualWorld : public std::enable_shared_from_this<VirtualWorld> {
 public:
  VirtualWorld(Runtime& runtime, int ranks, LinkedNetworkOptions options);

  std::shared_ptr<LinkedEndpoint> endpoint(int rank);
  int ranks() const { return static_cast<int>(places_.size()); }
  bool is_dead(int rank) const { return place(rank).is_dead; }
  Duration asleep_until(int rank) const { return place(rank).asleep_until; }
  std::uint64_t sent(int rank) const { return place(rank).sent; }

  void kill(int rank);
  void kill_at_message(int rank, std::uint64_t messages) { place(rank).dies_at = place(rank).sent + messages; }
  void stall(int rank, Duration how_long);
  void watch_deaths(std::function<void(int rank)> watcher) { watcher_ = std::move(watcher); }
  void cut(int from, int to) { way(from, to).is_cut = true; }
  /// Nothing arrives any more.
  void close();

  // Called by links.
  bool has_room(int from, int to) const;
  /// When its bytes have left. `from` may be dead then.
  Duration send(int from, int to, const Frame& frame, ConstBytes payload);
  /// The link of `from` to `to` has ended; the other side learns of it once all has arrived.
  void end(int from, int to);
  /// `rank` has taken what it had kept of `peer`.
  void took(int rank, int peer);

 private:
  struct Place {
    std::vector<std::weak_ptr<VirtualLink>> links;  // by peer
    std::shared_ptr<Aborts> aborts;
    bool is_dead = false;
    Duration died{0};
    std::uint64_t sent = 0;
    std::optional<std::uint64_t> dies_at;
    Duration asleep_until{0};
  };
  /// From one rank to another.
  struct Way {
    bool is_cut = false, has_ended = false;
    std::uint64_t under_way = 0;  // bytes
    Duration free{0};             // when the last bytes have left
    Duration last{0};             // when the last message arrives
    std::map<Channel, Duration> last_on;
  };

  Place& place(int rank) { return places_.at(static_cast<std::size_t>(rank)); }
  const Place& place(int rank) const { return places_.at(static_cast<std::size_t>(rank)); }
  Way& way(int from, int to) { return ways_.at(index(from, to)); }
  const Way& way(int from, int to) const { return ways_.at(index(from, to)); }
  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * places_.size() + static_cast<std::size_t>(to);
  }
  std::shared_ptr<VirtualLink> link(int rank, int peer) {
    return place(rank).links.at(static_cast<std::size_t>(peer)).lock();
  }
  /// Calls `arrival` at `when`, or once the rank is awake again; not at all if the rank is dead then.
  void at(Duration when, int rank, std::function<void(VirtualWorld&)> arrival);

  Runtime& runtime_;
  const LinkedNetworkOptions options_;
  Random random_;
  std::vector<Place> places_;
  std::vector<Way> ways_;
  std::function<void(int rank)> watcher_;  // of deaths
  bool is_closed_ = false;
};

}  // namespace ripieno::transport
