// Registered memory: what a rank's peers on the same host can read where it lies. The owner's side hands it out of a
// few large regions; the peer's side finds what a message says lies there.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "ripieno/transport/shared/control.h"

namespace ripieno::transport {

/// Where bytes lie in their owner's registered memory.
struct Place {
  std::uint32_t region = 0;
  std::uint64_t offset = 0;
};

/// May be used from any thread. Free memory is always zeros.
class SharedArena : public std::enable_shared_from_this<SharedArena> {
 public:
  explicit SharedArena(std::shared_ptr<SharedControl> control) : control_(std::move(control)) {}

  /// `bytes` zeros, aligned to 64 bytes; free again when the last owner lets go, who may outlive everything else. Null
  /// where there is no more memory to share.
  std::shared_ptr<std::byte> take(std::size_t bytes);
  /// The same for good: never free again, so that peers who have it mapped read what was last written there also after
  /// this rank has ended. Valid as long as this object.
  std::byte* keep(std::size_t bytes);
  /// Nothing where not all of `bytes` is registered memory.
  std::optional<Place> find(ConstBytes bytes) const;

 private:
  struct Region {
    SharedMemory memory;
    std::map<std::size_t, std::size_t> free;  ///< offset -> bytes; neighbours are one
  };

  std::byte* cut(std::size_t bytes);
  std::byte* cut(Region& region, std::size_t bytes);
  bool grow(std::size_t bytes);
  void free(std::byte* data, std::size_t bytes);

  mutable std::mutex mutex_;
  std::shared_ptr<SharedControl> control_;
  std::vector<Region> regions_;
};

/// A peer's registered memory, mapped when first spoken of; to be written to in an all-reduce, otherwise read.
class PeerRegions {
 public:
  PeerRegions() = default;
  PeerRegions(pid_t pid, const ControlHead* head) : pid_(pid), head_(head) {}

  /// Error(mismatch): that is not registered memory. Error(network): it cannot be mapped.
  std::byte* at(Place place, std::uint64_t bytes);

 private:
  pid_t pid_ = 0;
  const ControlHead* head_ = nullptr;
  std::vector<SharedMemory> regions_;
};

}  // namespace ripieno::transport
