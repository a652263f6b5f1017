// A simulated network, for virtual time: every rank has one card that sends and one that receives, each serving one
// message after the other, so that many senders to one receiver queue (incast costs what it costs). A message of b bytes
// whose sending starts at t occupies the sender's card until t + b*beta; its head arrives at t + alpha and occupies the
// receiver's card, once that is free, for b*beta.
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
#pragma once

#include <memory>

#include "ripieno/transport/endpoint.h"
#include "ripieno/transport/link.h"

namespace ripieno {

namespace simulation {
struct State;
}

struct SimulatedOptions {
  LinkModel link;
  int per_node = 1;     ///< ranks on a node, one after the other; at least 1
  LinkModel node_link;  ///< between ranks of one node
  /// Bytes that may be under way to a receiver that has not asked for them; more wait at the sender, as with a full TCP
  /// window. Without this bound a deadlock of "all send first" would stay hidden.
  std::size_t window_bytes = 256 << 10;
  std::size_t framing_bytes = 0;  ///< added to each message's bytes
  /// That a card lets through at once where it has been idle for as long as they take at the link's rate: a token
  /// bucket, as `tc tbf` is.
  std::size_t burst_bytes = 0;
  /// 0: a card sends one message after the other. Else messages to different ranks take turns, by so many bytes or a
  /// sixteenth of the message where that is more, as TCP's connections share a link; nobody dies then.
  std::size_t turn_bytes = 0;
  /// From a rank's death until all others know of it: what a failure detector takes. At least 0.
  Duration detection = std::chrono::milliseconds(10);
};

class SimulatedNetwork {
 public:
  SimulatedNetwork(Runtime& runtime, int ranks, SimulatedOptions options = {});
  ~SimulatedNetwork();

  std::shared_ptr<Endpoint> endpoint(int rank);

  /// `rank` dies now; a second death is none. Its coroutine goes on until its next operation fails.
  void kill(int rank);
  /// From kill() on, before others know of it.
  bool dead(int rank) const;

 private:
  std::shared_ptr<simulation::State> state_;
};

}  // namespace ripieno
