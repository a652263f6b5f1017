// A simulated network, for virtual time: every rank has one card that sends and one that receives, each serving one
// message after the other, so that many senders to one receiver queue (incast costs what it costs). A message of b
// bytes whose sending starts at t occupies the sender's card until t + b*beta; its head arrives at t + alpha and
// occupies the receiver's card, once that is free, for b*beta.
//
// Ranks may share nodes (per_node): two of one node reach each other over a link of its own kind (node_link), for which
// each rank has a second pair of cards. What a rank sends inside its node and between nodes does not wait for each
// other; nor do the ranks of a node share a card to the outside.
//
// An abort (Endpoint::abort) ends its scope at once on the rank that calls it, and on each other member one latency of
// the link between them later, with Error(peer) "rank 0: rank 2 gave up: ...". What a rank had under way in the scope
// is dropped as it learns of the abort; the time that cards had set aside for it stays taken, or, where messages take
// turns, what is left of it is free. What had arrived by then can still be received until the receiver learns of it.
// What is sent meanwhile to a rank that has ended the scope is carried and dropped. Other scopes' messages are not
// touched.
//
// Ranks can die (kill()), in three steps:
// 1. Death. The rank's own operations, pending and to come, fail with Error(peer) "rank 3 was killed". What it had sent
//    and had arrived can still be received; what it had under way is lost. Nobody notices: who waits for it waits on.
// 2. Loss, `detection` later. A failure detector tells all live ranks at the same moment; it makes no mistakes. Every
//    pending operation of every live rank fails with Error(peer) "rank 0: lost rank 3", every later one likewise until
//    that rank has called survivors(). All messages that were not received by then are dropped, from whomever, and the
//    cards are free. A send that had completed stays completed (and counted) although its message is dropped.
// 3. Survival. survivors() begins a new epoch on its rank. An epoch is the number of losses acknowledged: as all ranks
//    learn of all losses in the same order, equal epochs have equal survivors. A loss drops all that was under way and
//    a rank that has not acknowledged it can send nothing, so messages of two epochs never meet. A rank that is ahead
//    may send to one that is not: the message waits for it, within the window.
// Ranks may die at any time, during another's detection or before survivors() too; each loss fails the operations anew.
// An abort with an Error(peer) of a rank that has not acknowledged a loss does nothing: all ranks were told of the
// loss.
#pragma once

#include <memory>

#include "ripieno/transport/link_model.h"
#include "ripieno/transport/network.h"

namespace ripieno::transport {

namespace simulation {
struct State;
}

struct SimulatedOptions {
  LinkModel link;
  int per_node = 1;     ///< ranks on a node, 0 .. per_node - 1 on the first; at least 1
  LinkModel node_link;  ///< between ranks of one node
  /// Bytes that may be under way to a receiver that has not asked for them; more wait at the sender, as with a full TCP
  /// window. Without this bound a deadlock of "all send first" would stay hidden.
  std::size_t window_bytes = 256 << 10;
  std::size_t framing_bytes = 0;  ///< added to each message's bytes
  /// That a card lets through at once where it has been idle for as long as they take at the link's rate: a token
  /// bucket, as `tc tbf` is. Inside a node there is none.
  std::size_t burst_bytes = 0;
  /// 0: a card sends one message after the other. Else messages to different ranks take turns, by so many bytes or a
  /// sixteenth of the message where that is more, as TCP's connections share a link; nobody dies then.
  std::size_t turn_bytes = 0;
  /// From a rank's death until all others know of it: what a failure detector takes. At least 0.
  Duration detection = std::chrono::milliseconds(10);
};

class SimulatedNetwork final : public Network {
 public:
  SimulatedNetwork(Runtime& runtime, int ranks, SimulatedOptions options = {});
  ~SimulatedNetwork() override;

  std::shared_ptr<Endpoint> endpoint(int rank) override;
  void kill(int rank) override;
  bool dead(int rank) const override;

 private:
  std::shared_ptr<simulation::State> state_;
};

/// The transport "simulated" (transports.h).
std::unique_ptr<Network> simulated_network(Runtime& runtime, int ranks, const SimulatedOptions& options);

}  // namespace ripieno::transport
