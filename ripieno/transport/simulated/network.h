// A simulated network in virtual time: every rank has one card that sends and one that receives. Each serves one
// message after the other, so many senders to one receiver queue up (incast has its cost). A message of b bytes whose
// sending starts at t occupies the sender's card until t + b*beta; its head arrives at t + alpha and occupies the
// receiver's card, once that is free, for b*beta.
//
// Ranks may share nodes (per_node): ranks of one node reach each other over links of another kind (node_link), with a
// second pair of cards on each rank. Messages inside a node and between nodes do not wait for each other, and the ranks
// of a node do not share a card to the outside.
//
// An abort (Endpoint::abort) ends its scope at once on the rank that calls it, and on each other member one latency of
// the link between them later, with Error(peer) "rank 0: rank 2 gave up: ...". When a rank learns of the abort, its
// messages in flight in the scope are dropped. Card time reserved for them stays taken or, where messages take turns,
// its rest becomes free. Messages that had arrived by then can still be received until the receiver learns of the
// abort. Messages sent meanwhile to a rank that has ended the scope are carried and dropped. Other scopes' messages are
// not affected.
//
// Ranks can die (kill()), in three steps:
// 1. Death. The rank's own pending and future operations fail with Error(peer) "rank 3 was killed". Messages of it that
//    have arrived can still be received; those in flight are lost. Nobody notices: operations that wait for it go on
//    waiting.
// 2. Loss, `detection` later. A failure detector tells all live ranks at the same moment; it makes no mistakes. Every
//    pending operation of every live rank fails with Error(peer) "rank 0: lost rank 3", and so does every later one
//    until that rank has called survivors(). All messages not received by then are dropped, whoever sent them, and the
//    cards are free. A send that had completed stays completed (and counted) although its message is dropped.
// 3. Survival. survivors() begins a new epoch on its rank. An epoch is the number of losses acknowledged: since all
//    ranks learn of all losses in the same order, equal epochs have equal survivors. A loss drops all messages in
//    flight, and a rank that has not acknowledged it can send nothing, so messages of two epochs never meet. A rank may
//    send to one that is an epoch behind: the message waits for it, within the window.
// Ranks may die at any time, even while another death is being detected or before survivors(); each loss fails
// operations again. An abort with an Error(peer) of a rank that has not acknowledged a loss does nothing, since all
// ranks were told of the loss.
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
  int per_node = 1;     ///< ranks on a node (ranks 0 .. per_node - 1 on the first); at least 1
  LinkModel node_link;  ///< between ranks of one node
  /// The most bytes in flight to a receiver that has not posted their receives; more wait at the sender, as with a full
  /// TCP window. Without this bound a deadlock of "all send first" would stay hidden.
  std::size_t window_bytes = 256 << 10;
  std::size_t framing_bytes = 0;  ///< added to each message's bytes
  /// Bytes that a card sends at once after it has been idle for as long as they take at the link's rate: a token
  /// bucket, as `tc tbf`. Not used inside a node.
  std::size_t burst_bytes = 0;
  /// 0: a card sends one message after the other. Else messages to different ranks take turns, as TCP connections share
  /// a link; a turn is so many bytes, or a sixteenth of the message if that is more. Ranks cannot be killed then.
  std::size_t turn_bytes = 0;
  /// The failure detector's time, from a rank's death until all others know of it. At least 0.
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
