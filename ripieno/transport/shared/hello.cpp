#include "ripieno/transport/shared/hello.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>

#include "ripieno/core/file.h"

namespace ripieno::transport {

std::string host_identity() {
  std::string here;
  try {
    here = read_file("/proc/sys/kernel/random/boot_id");
  } catch (const Error&) {
    return "";
  }
  while (here.ends_with('\n')) here.pop_back();
  for (const char* kind : {"/proc/self/ns/pid", "/proc/self/ns/net"}) {
    std::array<char, 64> space{};
    const auto length = ::readlink(kind, space.data(), space.size());
    if (length <= 0) return "";
    here += text(" ", std::string_view(space.data(), static_cast<std::size_t>(length)));
  }
  return here;
}

bool same_host(const SharedHello& one, const SharedHello& other) { return one.host == other.host && one.host[0] != 0; }

std::uint64_t check_word() {
  std::uint64_t word = 0;
  if (::getrandom(&word, sizeof word, 0) != sizeof word) fail(ErrorKind::network, "the kernel has no random number");
  return word;
}

SharedHello shared_hello(const SharedHub* hub, std::uint64_t word, std::size_t ring_bytes) {
  SharedHello hello;
  const std::string here = host_identity();
  here.copy(hello.host.data(), hello.host.size() - 1);
  ::sched_getaffinity(0, sizeof hello.cpus, &hello.cpus);
  hello.pid = ::getpid();
  if (!hub) return hello;
  hello.word = word;
  hello.ring_bytes = ring_bytes;
  hello.control_fd = hub->own()->control->fd();
  hello.bell_fd = hub->bell_fd();
  return hello;
}

std::optional<SharedPeer> open_peer(const SharedHello& mine, const SharedHello& theirs, int rank, std::string* why) {
  if (!same_host(mine, theirs)) {
    *why = "another host";
  } else if (mine.control_fd < 0 || theirs.control_fd < 0) {
    *why = "no shared memory";
  } else if (mine.ring_bytes != theirs.ring_bytes) {
    *why = text("rings of ", mine.ring_bytes, " and ", theirs.ring_bytes, " bytes");
  } else {
    try {
      const std::size_t offset = section_offset(rank, mine.ring_bytes), bytes = section_bytes(mine.ring_bytes);
      constexpr auto access = SharedMemory::Access::write;
      SharedPeer peer;
      peer.head_memory = SharedMemory::open(theirs.pid, theirs.control_fd, 0, page_bytes, access);
      peer.ring_memory = SharedMemory::open(theirs.pid, theirs.control_fd, offset, bytes, access);
      peer.head = reinterpret_cast<ControlHead*>(peer.head_memory.data());
      peer.ring = RingReader(reinterpret_cast<RingState*>(peer.ring_memory.data()), mine.ring_bytes);
      peer.regions = PeerRegions(theirs.pid, peer.head);
      peer.regions.at(all_reduce_place, all_reduce_bytes);
      // Open for reading too: writing to a pipe with a reader raises no signal when the peer has gone.
      peer.bell = open_of(theirs.pid, theirs.bell_fd, O_RDWR | O_NONBLOCK);
      if (peer.head->word == theirs.word) return peer;
      *why = "what the peer shows is not its own";
    } catch (const Error& error) {
      *why = error.what();
    }
  }
  return std::nullopt;
}

bool cores_for_all(const SharedHello& mine, const std::vector<SharedHello>& others) {
  cpu_set_t cpus = mine.cpus;
  int ranks = 1;
  for (const SharedHello& other : others) {
    if (!same_host(mine, other)) continue;
    CPU_OR(&cpus, &cpus, &other.cpus);
    ++ranks;
  }
  return CPU_COUNT(&cpus) >= ranks;
}

}  // namespace ripieno::transport
