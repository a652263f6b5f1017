// A network of links in virtual time (virtual_link.h), under the same endpoints and aborts as tcp and shared memory
// (linked_endpoint.h): for what ranks do when peers end, hang or cannot be reached. All delays are drawn from the
// runtime's seed, so a run with the same seed and the same calls is the same. For times, take SimulatedNetwork: cards,
// incast and bursts are there.
#pragma once

#include <memory>

#include "ripieno/transport/link_model.h"
#include "ripieno/transport/linked_endpoint.h"
#include "ripieno/transport/network.h"

namespace ripieno::transport {

class VirtualWorld;

struct LinkedNetworkOptions {
  LinkOptions link;
  LinkModel time{std::chrono::microseconds(50), Duration(800)};  ///< each message's, at the least
  Duration jitter = std::chrono::microseconds(200);              ///< on top of it, at the most
};

class LinkedNetwork final : public Network {
 public:
  LinkedNetwork(Runtime& runtime, int ranks, LinkedNetworkOptions options = {});
  ~LinkedNetwork() override;

  /// Once for each rank, before any of them is used.
  std::shared_ptr<Endpoint> endpoint(int rank) override { return linked(rank); }
  std::shared_ptr<LinkedEndpoint> linked(int rank);

  /// The rank's process ends. Its operations fail with Error(peer) "rank 3 was killed"; its peers lose it once what it
  /// has sent has arrived.
  void kill(int rank) override;
  /// kill() by its next message but `messages`.
  void kill_at_message(int rank, std::uint64_t messages);
  bool dead(int rank) const override;
  /// From now on called with each rank that is killed, at that moment: as a launcher learns of it.
  void watch_deaths(std::function<void(int rank)> watcher);
  /// The messages that the rank has sent so far, aborts and notes included.
  std::uint64_t sent(int rank) const;

  /// For so long nothing leaves the rank and nothing arrives at it, and its watchdog sleeps: SIGSTOP and SIGCONT.
  void stall(int rank, Duration how_long);

  /// From now on what `from` sends to `to` is lost, its end included. The other way stays.
  void cut(int from, int to);

 private:
  std::shared_ptr<VirtualWorld> world_;
};

}  // namespace ripieno::transport
