// An endpoint over TCP, with one connection per pair of ranks. Header (transport/frame.h), payload and the payload's
// checksum (transport/checksum.h) leave in one gathered write. A coroutine per peer reads headers and moves payloads
// straight to the memory of their receives, adding or converting on the way in chunks that stay in the cache.
//
// Errors, each naming this rank, the peer and the message:
// - mismatch: the peer sent a message other than the expected one (operation, type, count, size, epoch or sequence), or
//   bytes that are no message, or not those that the peer sent: memory or the network has changed them. The connection
//   ends, since nothing on it can be trusted.
// - peer: the connection was closed or reset, the peer's process on this host has ended (shared/endpoint.h watches it),
//   or the watchdog's time has passed. Pending and later operations with that
//   peer throw it; messages that had arrived completely can still be received. A rank without such an operation is not
//   told. survivors() agrees on who goes on (linked_endpoint.h).
// - peer, in a scope that another member has aborted (Endpoint::abort): "rank 0: rank 2 gave up: .." with that rank's
//   own message. The connection and other scopes go on. This rank reads of the abort after everything written to it
//   before. If it has paused at an unexpected message for lack of credit, it reads on once it posts that receive or
//   aborts that scope itself.
//
// Before ranks close their endpoints they should agree that everything is received (a barrier): closing with unread
// bytes makes the kernel reset the connection, which drops bytes that the other side has not read yet. Destroy the
// endpoint before its runtime. A coroutine that is suspended in the endpoint should not own it, or neither would ever
// end.
#pragma once

#include "ripieno/transport/checksum.h"
#include "ripieno/transport/endpoint.h"
#include "ripieno/transport/frame.h"
#include "ripieno/transport/joining.h"

namespace ripieno::transport {

/// What each message costs besides its payload.
inline constexpr std::size_t tcp_framing_bytes = frame_bytes + checksum_bytes;

struct TcpOptions {
  LinkOptions link;
  /// Unsent bytes that the kernel accepts; the rest waits here, where more urgent messages can overtake it.
  int unsent_bytes = 256 << 10;
};

/// `peers[r]` is connected to rank r and made on `runtime`'s context; peers[rank] is empty.
std::shared_ptr<Endpoint> tcp_endpoint(Runtime& runtime, int rank, PeerSockets peers, TcpOptions options);

}  // namespace ripieno::transport
