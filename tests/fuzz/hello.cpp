// What a rank of the same host shows of its memory: a hello, and behind it what the memory's head and the ring in it
// hold.
#include <fcntl.h>

#include <cstring>

#include "ripieno/transport/shared/hello.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ripieno;

constexpr std::size_t ring_bytes = 4096;

/// Reads as a link does: what the ring says is there, once around, and what lies in regions.
void read(transport::SharedPeer& peer) {
  peer.ring.readable();
  for (int i = 0; i < 4; ++i) {
    const ConstBytes piece = peer.ring.piece(1000);
    if (piece.empty()) break;
    volatile std::byte last = piece.back();
    (void)last;
    peer.ring.advance(piece.size());
  }
  for (std::uint32_t region = 0; region < 3; ++region) peer.regions.at(transport::Place{region, 4096}, 64);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < sizeof(transport::SharedHello)) return 0;
  transport::SharedHello mine = transport::shared_hello(nullptr, 0, ring_bytes), theirs;
  std::memcpy(&theirs, data, sizeof theirs);
  std::string shown(fuzz::as_text(data + sizeof theirs, size - sizeof theirs));
  shown.resize(transport::section_offset(1, ring_bytes));
  const fuzz::MemoryFile memory(shown);
  if (theirs.shares % 2 == 1) ::fcntl(memory.fd(), F_ADD_SEALS, F_SEAL_SHRINK);
  mine.pid = ::getpid();
  mine.ring_bytes = ring_bytes;
  theirs.host = mine.host;  // else nothing is opened
  theirs.ring_bytes = ring_bytes;
  theirs.pid = ::getpid();
  theirs.control_fd = theirs.bell_fd = memory.fd();
  std::string why;
  fuzz::take_or_refuse([&] {
    if (auto peer = transport::open_peer(mine, theirs, 0, &why)) read(*peer);
  });
  transport::cores_for_all(mine, {theirs});
  return 0;
}
