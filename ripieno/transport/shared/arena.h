// Registered memory, which a rank's peers on the same host can read in place. The owner hands it out from a few large
// regions; a peer maps the places that messages name.
#pragma once

#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "ripieno/transport/shared/control.h"

namespace ripieno::transport {

/// The place of bytes in their owner's registered memory.
struct Place {
  std::uint32_t region = 0;
  std::uint64_t offset = 0;
};

/// Thread-safe. Free memory is always zeroed.
class SharedArena : public std::enable_shared_from_this<SharedArena> {
 public:
  explicit SharedArena(std::shared_ptr<SharedControl> control) : control_(std::move(control)), process_(::getpid()) {}

  /// `bytes` zeroed bytes, aligned to 64; freed with the last owner, which may outlive everything else (an owner in a
  /// forked process frees nothing: the memory is the same). Null if there is no more memory to share.
  std::shared_ptr<std::byte> take(std::size_t bytes);
  /// As take(), but never freed, so that peers that have it mapped can read the last contents even after this rank has
  /// ended. Valid as long as this object. Only pages that are touched take memory.
  std::byte* keep(std::size_t bytes);
  /// nullopt unless all of `bytes` is registered memory.
  std::optional<Place> find(ConstBytes bytes) const;

 private:
  struct Region {
    SharedMemory memory;
    std::map<std::size_t, std::size_t> free;  ///< offset -> bytes; adjacent holes are merged
  };

  enum class Pages : std::uint8_t { as_touched, large };  ///< large: from 2 MiB on
  std::byte* cut(std::size_t bytes, Pages pages);
  std::byte* cut(Region& region, std::size_t bytes, Pages pages);
  bool grow(std::size_t bytes);
  void free(std::byte* data, std::size_t bytes);

  mutable std::mutex mutex_;
  std::shared_ptr<SharedControl> control_;
  std::vector<Region> regions_;
  const pid_t process_;
};

/// A peer's registered memory, mapped at first use; an all-reduce writes to it, everything else only reads.
class PeerRegions {
 public:
  PeerRegions() = default;
  PeerRegions(pid_t pid, const ControlHead* head) : pid_(pid), head_(head) {}

  /// The mapped address. Error(mismatch): the place is not registered memory. Error(network): it cannot be mapped.
  std::byte* at(Place place, std::uint64_t bytes);

 private:
  pid_t pid_ = 0;
  const ControlHead* head_ = nullptr;
  std::vector<SharedMemory> regions_;
};

}  // namespace ripieno::transport
