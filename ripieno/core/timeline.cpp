#include "ripieno/core/timeline.h"

#include <algorithm>
#include <functional>

namespace ripieno {

std::uint32_t Timeline::new_event(Callback callback) {
  std::uint32_t event = free_event_;
  if (event == none) {
    event = static_cast<std::uint32_t>(events_.size());
    events_.emplace_back();
  } else {
    free_event_ = events_[event].next;
  }
  events_[event].callback = std::move(callback);
  events_[event].next = none;
  return event;
}

std::uint32_t Timeline::new_moment() {
  if (free_moment_ == none) {
    moments_.emplace_back();
    return static_cast<std::uint32_t>(moments_.size() - 1);
  }
  const std::uint32_t moment = free_moment_;
  free_moment_ = moments_[moment].first;
  return moment;
}

Timeline::Id Timeline::add(Duration when, Callback callback) {
  const std::uint32_t event = new_event(std::move(callback));
  Known& latest = known(when);
  if (latest.moment != none && latest.when == when) {
    Moment& moment = moments_[latest.moment];
    events_[moment.last].next = event;
    moment.last = event;
  } else {
    latest = {when, new_moment()};
    moments_[latest.moment] = {event, event};
    heap_.push_back({when, next_order_++, latest.moment});
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  ++count_;
  return std::uint64_t{events_[event].generation} << 32 | event;
}

void Timeline::remove(Id id) {
  const auto event = static_cast<std::uint32_t>(id);
  if (event >= events_.size() || events_[event].generation != id >> 32) return;
  ++events_[event].generation;
  --count_;
  const Callback removed = std::move(events_[event].callback);  // destroyed last: its destructor may use this timeline
}

Callback Timeline::take(Duration& when) {
  for (;;) {
    const Entry entry = heap_.front();
    Moment& moment = moments_[entry.moment];
    const std::uint32_t event = moment.first;
    moment.first = events_[event].next;
    if (moment.first == none) {
      if (Known& latest = known(entry.when); latest.moment == entry.moment) latest.moment = none;
      moment.first = std::exchange(free_moment_, entry.moment);
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
    }
    Callback callback = std::move(events_[event].callback);
    events_[event].next = std::exchange(free_event_, event);
    if (!callback) continue;  // removed
    ++events_[event].generation;
    --count_;
    when = entry.when;
    return callback;
  }
}

void Timeline::clear() {
  Duration when;
  while (!empty()) take(when);
}

}  // namespace ripieno
