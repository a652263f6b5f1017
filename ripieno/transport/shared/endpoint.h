// An endpoint through shared memory to workers on the same host, and over TCP to the others. Every pair of ranks agrees
// over its TCP connection which to use: shared memory if both are on the same host (the same boot of the same kernel,
// the same process namespace) and each can open the other's memory, else TCP. way() says which.
//
// It watches the processes of its peers on this host: one that has ended is lost once all that it had sent is read,
// even if a child that it forked keeps the connection open.
//
// It keeps the contract of tcp/endpoint.h: the same messages, errors, credit and counted framing. The differences:
// - A payload in memory() of at least `placed_bytes` is not copied: send() returns once the receiver has taken it from
//   its place. Other payloads go through a ring of `ring_bytes` for each pair and direction; send() returns once the
//   payload is in the ring.
// - A payload in memory() uses no credit until the receiver copies it, which the receiver does when it waits itself. So
//   "all send first" makes progress as over TCP.
// - When its scope is aborted, a send from memory() fails once the receiver no longer reads there, and an all-reduce of
//   the engine once no peer touches its numbers. So the memory of a failed operation may be overwritten.
// - What a rank sent before it closed its endpoint can still be received.
// Nothing has a name in a file system, so nothing is left behind, however a process ends.
#pragma once

#include "ripieno/transport/endpoint.h"
#include "ripieno/transport/joining.h"

namespace ripieno::transport {

struct SharedOptions {
  LinkOptions link;                               ///< of shared memory and of TCP
  Duration agreement = std::chrono::minutes(30);  ///< the time that peers have to agree on the way
  bool shares = true;                             ///< false: everything goes over TCP. The same on all ranks
  /// Bytes of a ring, a multiple of 64; the same on all ranks.
  std::size_t ring_bytes = 256 << 10;
  std::size_t placed_bytes = 16 << 10;  ///< for smaller payloads a copy costs less than a ticket
};

/// Agrees with every peer and returns the endpoint; all ranks call it. `peers` as for tcp_endpoint(). Error(peer): a
/// peer was lost meanwhile, or did not answer within `agreement`. Error(mismatch): a peer's answer is not of this
/// version, or ranks differ in `shares`.
Task<std::shared_ptr<Endpoint>> shared_endpoint(Runtime& runtime, int rank, PeerSockets peers, SharedOptions options);

/// The transport "tcp" (transports.h): connects, then calls shared_endpoint().
Task<std::shared_ptr<Endpoint>> join_by_host(Joining joining);

}  // namespace ripieno::transport
