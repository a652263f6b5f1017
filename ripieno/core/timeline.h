// Callbacks in the order of (time, sequence): what was set first among those of one time comes first. A heap of
// moments, each with a queue of its callbacks, since in a cluster that goes in step a thousand of them share a time.
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
  /// One that was taken or removed before is no error.
  void remove(Id id);
  bool empty() const { return count_ == 0; }
  /// Takes the first off and says its time. There is one.
  Callback take(Duration& when);
  /// Destroys all, of which some may add others or remove them meanwhile.
  void clear();

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  /// Empty: removed, and still in the queue of its moment; or free, and in the list of those.
  struct Event {
    Callback callback;
    std::uint32_t next = none, generation = 1;
  };
  struct Moment {
    std::uint32_t first = none, last = none;  // of its events; `first` of a free moment: the next free one
  };
  /// Moments of one time: the one that was made first is over before the next gets its first event.
  struct Entry {
    Duration when;
    std::uint64_t order;
    std::uint32_t moment;
    bool operator>(const Entry& other) const { return when != other.when ? when > other.when : order > other.order; }
  };
  /// The latest moment of a time, where known: events are added to it alone.
  struct Known {
    Duration when{-1};
    std::uint32_t moment = none;
  };

  Known& known(Duration when) { return known_[(static_cast<std::uint64_t>(when.count()) * 0x9E3779B97F4A7C15u) >> 58]; }
  std::uint32_t new_event(Callback callback);
  std::uint32_t new_moment();

  std::vector<Event> events_;
  std::vector<Moment> moments_;
  std::vector<Entry> heap_;  // the least first
  std::array<Known, 64> known_{};
  std::uint32_t free_event_ = none, free_moment_ = none;
  std::uint64_t next_order_ = 0;
  std::size_t count_ = 0;  // of those that were neither taken nor removed
};

}  // namespace ripieno
