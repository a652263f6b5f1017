// What a rank of the same host shows of its memory: a hello, and behind it what the memory holds.
#include <cstring>

#include "ripieno/transport/shared/hello.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ripieno;
  if (size < sizeof(SharedHello)) return 0;
  SharedHello mine = shared_hello(nullptr, 0, 4096), theirs;
  std::memcpy(&theirs, data, sizeof theirs);
  const fuzz::MemoryFile memory(fuzz::as_text(data + sizeof theirs, size - sizeof theirs));
  mine.pid = ::getpid();
  mine.ring_bytes = 4096;
  theirs.host = mine.host;  // else nothing is opened
  theirs.ring_bytes = mine.ring_bytes;
  theirs.pid = ::getpid();
  theirs.control_fd = theirs.bell_fd = memory.fd();
  std::string why;
  fuzz::take_or_refuse([&] { open_peer(mine, theirs, 0, &why); });
  cores_for_all(mine, {theirs});
  return 0;
}
