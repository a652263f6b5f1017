// What two ranks tell each other over their TCP connection before they decide how to reach each other.
#pragma once

#include <sched.h>

#include <array>
#include <optional>

#include "ripieno/transport/shared/hub.h"

namespace ripieno::transport {

/// As it lies in memory: what differs in size or order has another magic number.
struct SharedHello {
  static constexpr std::uint64_t expected_magic = 0x32'4D'48'53'49'52ull;  // "RISHM2"
  std::uint64_t magic = expected_magic;
  std::uint64_t word = 0;  ///< at the beginning of what it shows
  std::uint64_t ring_bytes = 0;
  std::int32_t pid = 0;  ///< 0: has nothing to show
  std::int32_t control_fd = -1;
  std::int32_t bell_fd = -1;
  std::int32_t shares = 1;       ///< 0: is to use TCP
  std::array<char, 112> host{};  ///< boot and process namespace
  cpu_set_t cpus{};              ///< that it may run on
};

/// `hub` may be null: this rank has no shared memory.
SharedHello shared_hello(const SharedHub* hub, std::uint64_t word, std::size_t ring_bytes);

/// A word that nobody can guess.
std::uint64_t check_word();

/// Opens what the peer shows. `why` not, for people, where nothing is returned.
std::optional<SharedPeer> open_peer(const SharedHello& mine, const SharedHello& theirs, int rank, std::string* why);

/// Whether the ranks that said so have at least a core each, all together: the ones on this rank's host.
bool cores_for_all(const SharedHello& mine, const std::vector<SharedHello>& others);

}  // namespace ripieno::transport
