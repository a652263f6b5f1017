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
// When all ranks have ended, collectives that have not ended wait so long for what is still on its way.
constexpr Duration last_chance = std::chrono::seconds(1);
constexpr Duration shortest_sleep = microseconds(20), longest_sleep = microseconds(500);
// MPI goes on with a collective, which may take many rounds, only when it is looked at.
constexpr Duration longest_in_collective = microseconds(50);

}  // namespace

void MpiHub::start(std::vector<std::shared_ptr<MpiLink>> links, std::shared_ptr<Waiter> waiter, bool may_spin) {
  links_ = std::move(links);
  waiter_ = std::move(waiter);
  may_spin_ = may_spin;
  active_ = runtime_.now();
  runtime_.add_poller(weak_from_this());
}

void MpiHub::give_up(const std::string& why) {
  if (std::exchange(gives_up_, true)) return;
  waiter_->break_off(why);
  for (const auto& link : links_) {
    if (link) link->break_off(why);
  }
  say(Farewell::gave_up);
  broken_ = true;
}

bool MpiHub::poll() {
  if (broken_) return false;
  bool active = false;
  try {
    active = take_headers();  // first, for what they say of requests that fail
    if (!broken_) active |= test_all();
  } catch (const Error& error) {
    give_up(error.what());
    return true;
  }
  if (active) active_ = runtime_.now();
  return active;
}

bool MpiHub::test_all() {
  bool active = false;
  for (std::size_t i = 0; i < under_way_.size() && !broken_;) {
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
  if (broken_) return false;
  const std::optional<Mpi::Taken> taken = mpi_->take(source, header_tag, header_);
  if (!taken) return false;
  links_[static_cast<std::size_t>(taken->from)]->take(ConstBytes(header_).first(taken->bytes));
  return true;
}

bool MpiHub::waits() const {
  return waiter_->waits() ||
         std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link && link->waits(); });
}

bool MpiHub::sleep() {
  if (!broken_) waiter_->look();
  if (broken_) return true;
  const Duration quiet = runtime_.now() - active_;
  if (may_spin_ && quiet < awake_for && !runtime_.is_computing() && waits()) return false;
  const Duration longest = waiter_->waits() ? longest_in_collective : longest_sleep;
  const Duration until = runtime_.now() + std::clamp(quiet / 8, shortest_sleep, longest);
  alarm_ = runtime_.call_at(until, [] {});
  return true;
}

std::optional<WakeUp> MpiHub::wake() {
  if (alarm_) runtime_.cancel(*std::exchange(alarm_, std::nullopt));
  return std::nullopt;  // MPI wakes nobody
}

void MpiHub::say(Farewell farewell) {
  for (const auto& link : links_) {
    if (link) link->say(farewell);
  }
}

bool MpiHub::finish(Duration limit) {
  const auto all_say = [this](auto farewell) {
    return std::all_of(links_.begin(), links_.end(), [&](const auto& link) { return !link || farewell(*link); });
  };
  const auto has_ended = [](const MpiLink& link) { return link.heard() == Farewell::ended; };
  const auto still_answers = [](const MpiLink& link) { return link.heard() != Farewell::gave_up; };
  const auto waits_for_ranks = [](const Operation& one) { return one.of_all; };
  const auto poll_once = [this] {
    if (!poll()) ::poll(nullptr, 0, 1);
  };
  if (!broken_) say(Farewell::ended);
  Duration end = runtime_.now() + limit;
  bool is_over = false;
  while (!broken_ && !is_over && runtime_.now() < end) {
    poll_once();
    const bool all_ended = all_say(has_ended);
    is_over = all_ended && under_way_.empty();
    if (!all_say(still_answers)) {
      end = std::min(end, runtime_.now() + telling);
    } else if (all_ended && std::all_of(under_way_.begin(), under_way_.end(), waits_for_ranks)) {
      end = std::min(end, runtime_.now() + last_chance);
    }
  }
  const bool is_finished = is_over && !broken_;
  if (!is_finished && !broken_) {
    say(Farewell::gave_up);
    for (end = runtime_.now() + telling; !broken_ && runtime_.now() < end;) poll_once();
  }
  broken_ = true;  // no call after MPI_Finalize
  waiter_->break_off("its endpoint has ended");
  links_.clear();
  waiter_.reset();
  return is_finished;
}

}  // namespace ripieno::transport
