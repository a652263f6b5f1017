// Callbacks in the order of (time, sequence): among callbacks of one time, the one added first comes first. A heap of
// moments, each with a queue of callbacks, since in a cluster in lock-step a thousand of them share a time.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "ripieno/core/callback.h"

namespace ripieno {

/// Picoseconds in 64 bits: exact sums in virtual time, and 106 days of range.
using Duration = std::chrono::duration<std::int64_t, std::pico>;

class Timeline {
 public:
  using Id = std::uint64_t;  ///< never 0

  Id add(Duration when, Callback callback);
  /// No error if the callback was taken or removed before.
  void remove(Id id);
  bool empty() const { return count_ == 0; }
  /// Removes the first callback and sets `when` to its time. Must not be empty.
  Callback take(Duration& when);
  /// Destroys all callbacks, whose destructors may add or remove others.
  void clear();

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  /// With an empty callback: removed but still in its moment's queue, or in the free list.
  struct Event {
    Callback callback;
    std::uint32_t next = none, generation = 1;
  };
  struct Moment {
    std::uint32_t first = none, last = none;  // its events; in a free moment, `first` is the next free one
  };
  /// Among moments of one time, the older one is over before the next gets its first event.
  struct Entry {
    Duration when;
    std::uint64_t order;
    std::uint32_t moment;
    bool operator>(const Entry& other) const { return when != other.when ? when > other.when : order > other.order; }
  };
  /// The latest moment of a time, if known; new events are added to it.
  struct Known {
    Duration when{-1};
    std::uint32_t moment = none;
  };

  Known& known(Duration when) { return known_[(static_cast<std::uint64_t>(when.count()) * 0x9E3779B97F4A7C15u) >> 58]; }
  std::uint32_t new_event(Callback callback);
  std::uint32_t new_moment();

  std::vector<Event> events_;
  std::vector<Moment> moments_;
  std::vector<Entry> heap_;  // min-heap
  std::array<Known, 64> known_{};
  std::uint32_t free_event_ = none, free_moment_ = none;
  std::uint64_t next_order_ = 0;
  std::size_t count_ = 0;  // callbacks neither taken nor removed
};

}  // namespace ripieno
