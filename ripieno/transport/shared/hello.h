// The message that two ranks exchange over their TCP connection before they choose shared memory or TCP.
#pragma once

#include <sched.h>

#include <array>
#include <optional>

#include "ripieno/transport/shared/hub.h"

namespace ripieno::transport {

/// Sent as its bytes in memory; a change of its layout needs another magic number.
struct SharedHello {
  static constexpr std::uint64_t expected_magic = 0x33'4D'48'53'49'52ull;  // "RISHM3"
  std::uint64_t magic = expected_magic;
  std::uint64_t word = 0;  ///< the check word at the start of the sender's shared memory
  std::uint64_t ring_bytes = 0;
  std::int32_t pid = 0;
  std::int32_t control_fd = -1;  ///< negative: the sender has no shared memory
  std::int32_t bell_fd = -1;
  std::int32_t shares = 1;       ///< 0: the sender must use TCP
  std::array<char, 112> host{};  ///< host_identity()
  cpu_set_t cpus{};              ///< the CPUs that the sender may run on
};

/// `hub` may be null: this rank has no shared memory.
SharedHello shared_hello(const SharedHub* hub, std::uint64_t word, std::size_t ring_bytes);

/// The kernel's boot and this process's namespaces, of processes and of the network: nodes of an emulated cluster
/// differ in the latter. Empty if the kernel does not tell.
std::string host_identity();

/// Whether both senders are on one host, where their process numbers mean the same.
bool same_host(const SharedHello& one, const SharedHello& other);

/// A random word that other processes cannot guess.
std::uint64_t check_word();

/// Opens the peer's shared memory. If it returns nullopt, `why` says why, for people.
std::optional<SharedPeer> open_peer(const SharedHello& mine, const SharedHello& theirs, int rank, std::string* why);

/// Whether the ranks on this rank's host together have at least a core each.
bool cores_for_all(const SharedHello& mine, const std::vector<SharedHello>& others);

}  // namespace ripieno::transport
