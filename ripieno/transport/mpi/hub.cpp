#include "ripieno/transport/mpi/hub.h"

#include <poll.h>

#include <algorithm>

#include "ripieno/transport/mpi/link.h"

namespace ripieno::transport {
namespace {

using std::chrono::microseconds;

constexpr int most_headers = 32;  // at a time, so that they do not starve the runtime's handlers
// While nothing has come for so long, a thread that may spin does not sleep.
constexpr Duration awake_for = microseconds(2000);
constexpr Duration shortest_sleep = microseconds(20), longest_sleep = microseconds(500);

}  // namespace

void MpiHub::start(std::vector<std::shared_ptr<MpiLink>> links, bool may_spin) {
  links_ = std::move(links);
  may_spin_ = may_spin;
  active_ = runtime_.now();
  runtime_.add_poller(weak_from_this());
}

bool MpiHub::poll() {
  if (broken_) return false;
  bool active = false;
  try {
    active = test_all();
    active |= take_headers();
  } catch (const Error& error) {
    broken_ = true;
    for (const auto& link : links_) {
      if (link) link->break_off(error.what());
    }
    return true;
  }
  if (active) active_ = runtime_.now();
  return active;
}

bool MpiHub::test_all() {
  bool active = false;
  for (std::size_t i = 0; i < under_way_.size();) {
    if (!mpi_->test(under_way_[i].request)) {
      ++i;
      continue;
    }
    Callback done = std::move(under_way_[i].done);
    under_way_[i] = std::move(under_way_.back());
    under_way_.pop_back();
    done();
    active = true;
  }
  return active;
}

/// Nothing is taken from ranks that are paused, so each of the others is asked.
bool MpiHub::take_headers() {
  int taken = 0;
  const bool all =
      std::none_of(links_.begin(), links_.end(), [](const auto& link) { return link && link->is_paused(); });
  if (all) {
    while (taken < most_headers && take_header(-1)) ++taken;
    return taken > 0;
  }
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    if (!links_[peer]) continue;
    while (taken < most_headers && !links_[peer]->is_paused() && take_header(static_cast<int>(peer))) ++taken;
  }
  return taken > 0;
}

bool MpiHub::take_header(int source) {
  const std::optional<Mpi::Taken> taken = mpi_->take(source, header_tag, header_);
  if (!taken) return false;
  links_[static_cast<std::size_t>(taken->from)]->take(ConstBytes(header_).first(taken->bytes));
  return true;
}

bool MpiHub::waits() const {
  return std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link && link->waits(); });
}

bool MpiHub::sleep() {
  if (broken_) return true;
  const Duration quiet = runtime_.now() - active_;
  if (may_spin_ && quiet < awake_for && !runtime_.is_computing() && waits()) return false;
  const Duration until = runtime_.now() + std::clamp(quiet / 8, shortest_sleep, longest_sleep);
  alarm_ = runtime_.call_at(until, [] {});
  return true;
}

void MpiHub::wake() {
  if (alarm_) runtime_.cancel(*std::exchange(alarm_, std::nullopt));
}

bool MpiHub::finish(Duration limit) {
  const Duration end = runtime_.now() + limit;
  const auto is_over = [this] {
    return under_way_.empty() &&
           std::all_of(links_.begin(), links_.end(), [](const auto& link) { return !link || link->peer_has_closed(); });
  };
  while (!broken_ && !is_over() && runtime_.now() < end) {
    if (!poll()) ::poll(nullptr, 0, 1);
  }
  const bool is_finished = !broken_ && is_over();
  links_.clear();
  return is_finished;
}

}  // namespace ripieno::transport
