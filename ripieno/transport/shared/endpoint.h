// An endpoint through memory that the workers of one host share, and over TCP to the others. Every rank agrees with
// every peer over their TCP connection which way they take: shared memory where both are on the same host (the same
// boot of the same kernel, the same process namespace) and each can open what the other shows it, TCP where not; way()
// tells.
//
// It keeps TCP's contract (tcp/endpoint.h): the same messages, errors and framing counted, the same credit. What
// differs:
// - A payload in memory() of at least `placed_bytes` is not copied: send() returns once the receiver has taken it from
//   where it lies. Other payloads go through a ring of `ring_bytes` a pair and direction; send() returns once all of it
//   is in the ring.
// - What lies in memory() counts for nothing of the credit until the receiver copies it, which it does where it waits
//   for something itself. So "all send first" goes forward as it does over TCP.
// - When its scope is aborted, a send of what lies in memory() fails once the receiver does not read there any more,
//   and an all-reduce of the engine once no peer touches its numbers any more. So whatever has failed may be
//   overwritten.
// - A rank that has closed its endpoint has been heard: what it had sent can still be received.
// Nothing of it has a name in a file system: however a process ends, nothing is left behind.
#pragma once

#include "ripieno/transport/endpoint.h"
#include "ripieno/transport/joining.h"

namespace ripieno::transport {

struct SharedOptions {
  LinkOptions link;                               ///< of both ways
  Duration agreement = std::chrono::minutes(30);  ///< for the answers of all peers on which way they take
  bool shares = true;                             ///< false: everything goes over TCP. The same on all ranks
  /// Bytes a pair and direction, a multiple of 64; the same on all ranks.
  std::size_t ring_bytes = 256 << 10;
  std::size_t placed_bytes = 16 << 10;  ///< below it, copying costs less than the ticket's way back
};

/// Agrees with every peer and returns the endpoint; all ranks call it. `peers` as for tcp_endpoint().
/// Error(peer): a peer was lost meanwhile, or did not answer within `agreement`. Error(mismatch): what it sent is not
/// an answer of this version, or one rank is to share memory and another not.
Task<std::shared_ptr<Endpoint>> shared_endpoint(Runtime& runtime, int rank, PeerSockets peers, SharedOptions options);

/// The transport "tcp" (transports.h): the same, of ranks that have met.
Task<std::shared_ptr<Endpoint>> join_by_host(Joining joining);

}  // namespace ripieno::transport
