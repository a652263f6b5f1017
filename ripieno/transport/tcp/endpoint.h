// An endpoint over TCP: one connection a pair of ranks. Header (transport/frame.h) and payload leave in one gathered
// write; a coroutine per peer reads headers and moves payloads straight to where a receive wants them, adding or
// converting on the way in chunks that stay in the cache.
//
// Errors, each naming this rank, the peer and the message:
// - mismatch: the peer sent another message than the one awaited (operation, type, count, size, epoch or sequence), or
//   bytes that are no message. The connection ends: nothing on it could be trusted any more.
// - peer: the connection was closed or reset, or the watchdog's time has passed. It is raised by the operations with
//   that peer, pending and later; messages that had arrived whole can still be received. Nobody is told where nobody
//   waits. A lost rank ends the job: survivors() always fails.
// - peer, of a scope that another member has aborted (Endpoint::abort): "rank 0: rank 2 gave up: .." with that rank's
//   own message. The connection, and what is in other scopes, goes on. This rank hears of it behind what was written to
//   it before: where its credit has it pause at a message that nobody has asked for, once it asks for that or aborts
//   that scope itself.
//
// Before ranks close their endpoints they should agree that all is received (a barrier): closing with unread bytes
// makes the kernel reset the connection, which drops what the other side has not been given yet.
// Destroy the endpoint before its runtime. A coroutine that is suspended in it should not own it: it would never end.
#pragma once

#include "ripieno/transport/endpoint.h"
#include "ripieno/transport/joining.h"

namespace ripieno::transport {

struct TcpOptions {
  LinkOptions link;
  /// Bytes that the kernel takes before they can leave; the rest waits here, where what is more urgent overtakes it.
  int unsent_bytes = 256 << 10;
};

/// `peers[r]` is connected to rank r and made on `runtime`'s context; peers[rank] is empty.
std::shared_ptr<Endpoint> tcp_endpoint(Runtime& runtime, int rank, PeerSockets peers, TcpOptions options);

}  // namespace ripieno::transport
