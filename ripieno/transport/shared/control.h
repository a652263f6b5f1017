// The shared memory that each rank shows to the others on its host: a head (whether the rank sleeps, which memory it
// has registered) and a ring to every peer.
#pragma once

#include <array>

#include "ripieno/transport/shared/ring.h"

namespace ripieno::transport {

inline constexpr std::size_t max_regions = 240;

struct ControlHead {
  std::uint64_t word = 0;                                  ///< the check word, which the maker also sends to its peers
  static constexpr std::uint32_t asleep = 1, waiting = 2;  ///< flags: asleep; also waits for a peer
  alignas(line_bytes) std::atomic<std::uint32_t> sleeping{0};
  alignas(line_bytes) std::atomic<std::uint32_t> regions{0};  ///< how many of the entries below are valid
  struct Region {
    std::uint64_t bytes = 0;
    std::int32_t fd = -1;
  };
  std::array<Region, max_regions> region{};
};
static_assert(sizeof(ControlHead) <= page_bytes);

/// What a rank writes into a peer's pipe to wake it.
struct BellStroke {
  std::chrono::nanoseconds at{0};  ///< on the host's steady clock
  std::int64_t core = -1;
  static BellStroke now();
};

/// The length of a ring's section, and the offset of the ring to rank `peer`.
constexpr std::size_t section_bytes(std::size_t ring_bytes) { return round_up(ring_section(ring_bytes), page_bytes); }
constexpr std::size_t section_offset(int peer, std::size_t ring_bytes) {
  return page_bytes + static_cast<std::size_t>(peer) * section_bytes(ring_bytes);
}

/// The maker's side.
class SharedControl {
 public:
  SharedControl(int ranks, std::size_t ring_bytes, std::uint64_t word)
      : ring_bytes_(ring_bytes), memory_(SharedMemory::make(section_offset(ranks, ring_bytes))) {
    head_ = new (memory_.data()) ControlHead;
    head_->word = word;
    for (int peer = 0; peer < ranks; ++peer) new (memory_.data() + section_offset(peer, ring_bytes)) RingState;
  }

  ControlHead& head() { return *head_; }
  int fd() const { return memory_.fd(); }
  RingWriter ring_to(int peer) {
    auto* state = reinterpret_cast<RingState*>(memory_.data() + section_offset(peer, ring_bytes_));
    return RingWriter(state, ring_bytes_);
  }

 private:
  std::size_t ring_bytes_;
  SharedMemory memory_;
  ControlHead* head_ = nullptr;
};

}  // namespace ripieno::transport
