// A simulated network, for virtual time: every rank has one card that sends and one that receives, each serving one
// message after the other, so that many senders to one receiver queue (incast costs what it costs). A message of b bytes
// whose sending starts at t occupies the sender's card until t + b*beta; its head arrives at t + alpha and occupies the
// receiver's card, once that is free, for b*beta.
#pragma once

#include <memory>

#include "ripieno/transport/endpoint.h"
#include "ripieno/transport/link.h"

namespace ripieno {

struct SimulatedOptions {
  LinkModel link;
  /// Bytes that may be under way to a receiver that has not asked for them; more wait at the sender, as with a full TCP
  /// window. Without this bound a deadlock of "all send first" would stay hidden.
  std::size_t window_bytes = 256 << 10;
  std::size_t framing_bytes = 0;  ///< added to each message's bytes
};

class SimulatedNetwork {
 public:
  SimulatedNetwork(Runtime& runtime, int ranks, SimulatedOptions options = {});
  ~SimulatedNetwork();

  std::shared_ptr<Endpoint> endpoint(int rank);

 private:
  struct State;
  class RankEndpoint;
  std::shared_ptr<State> state_;
};

}  // namespace ripieno
