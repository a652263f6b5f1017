#include "ripieno/core/gates.h"

#include <algorithm>

namespace ripieno {

void Gates::close(std::size_t gate) {
  const std::lock_guard lock(mutex_);
  if (closed_.at(gate) || given_up_) return;
  closed_[gate] = true;
  events_[gate] = std::make_shared<Event>(runtime_);
}

void Gates::open(std::size_t gate) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_.at(gate)) return;
    closed_[gate] = false;
  }
  opened_.notify_all();
  events_[gate]->set();
}

void Gates::give_up() {
  {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
  }
  for (std::size_t gate = 0; gate < size(); ++gate) open(gate);
}

Task<> Gates::passed(std::size_t gate) {
  for (;;) {
    std::shared_ptr<Event> event;
    {
      const std::lock_guard lock(mutex_);
      if (!closed_.at(gate)) co_return;
      event = events_[gate];
    }
    co_await event->wait();
  }
}

bool Gates::wait(std::size_t gate) {
  std::unique_lock lock(mutex_);
  const bool was_closed = closed_.at(gate);
  opened_.wait(lock, [&] { return !closed_[gate]; });
  return was_closed;
}

bool Gates::any_closed() {
  const std::lock_guard lock(mutex_);
  return std::find(closed_.begin(), closed_.end(), true) != closed_.end();
}

}  // namespace ripieno
