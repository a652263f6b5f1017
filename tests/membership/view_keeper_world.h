// The ranks of one job (membership/view_keeper.h), and what happens to them, in virtual time: notes that take long,
// ends, stalls and cuts, all drawn from one seed.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ripieno/core/error.h"
#include "ripieno/membership/view_keeper.h"

namespace ripieno::testing {

/// What may happen to the members of a seed's world, each several times.
struct Fates {
  bool deaths = true, stalls = false, cuts = false;
};

class ViewKeeperWorld {
 public:
  ViewKeeperWorld(std::uint64_t seed, Fates fates) : random_(seed, 1), runtime_(virtual_runtime(seed)), fates_(fates) {
    size_ = 2 + static_cast<int>(random_.below(15));
    options_.has_witness = random_.below(2) == 0;
    has_launcher_ = options_.has_witness || random_.below(2) == 0;
    is_troubled_ = !has_launcher_;  // where nobody says for certain that a process has ended, a half cannot go on
    membership::Seats all;
    for (int seat = 0; seat < size_; ++seat) all.push_back(seat);
    places_.resize(static_cast<std::size_t>(size_));
    for (int seat = 0; seat < size_; ++seat) {
      const auto tell = [this, seat](int to, const std::string& note) { send(seat, to, note); };
      const auto call_at = [this, seat](Duration when, Callback callback) { at(seat, when, std::move(callback)); };
      const auto taken = [this, seat](const membership::View& view) { take(seat, view); };
      place(seat).keeper = std::make_shared<membership::ViewKeeper>(*runtime_, seat, all, options_,
                                                                    membership::ViewKeeper::Ways{tell, call_at, taken});
    }
  }

  /// Until a while after the last trouble. Returns what went wrong; "": nothing did.
  std::string run() {
    plan();
    for (int seat = 0; seat < size_; ++seat) place(seat).keeper->start();
    runtime_->spawn("the end", end());
    runtime_->run();
    return violation_.empty() ? settled() : violation_;
  }

  const std::vector<std::string>& events() const { return events_; }

 private:
  struct Place {
    std::shared_ptr<membership::ViewKeeper> keeper;
    bool is_dead = false;
    Duration asleep_until{0};
    std::map<std::uint32_t, membership::Seats> taken;
  };

  static constexpr Duration troubles_end = std::chrono::seconds(20), all_ends = std::chrono::seconds(60);

  Place& place(int seat) { return places_.at(static_cast<std::size_t>(seat)); }
  Duration up_to(Duration most) {
    return Duration(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most.count()) + 1)));
  }
  int any_seat() { return static_cast<int>(random_.below(static_cast<std::uint64_t>(size_))); }
  bool acts(int seat) { return !place(seat).is_dead && !place(seat).keeper->has_left(); }
  void note(const std::string& what) { events_.push_back(text(seconds(runtime_->now()), " s: ", what)); }

  /// At a time when the seat is awake, unless it is dead.
  void at(int seat, Duration when, Callback callback) {
    auto call = [this, seat, callback = std::move(callback)]() mutable {
      if (place(seat).is_dead) return;
      if (place(seat).asleep_until > runtime_->now()) return at(seat, place(seat).asleep_until, std::move(callback));
      callback();
    };
    runtime_->call_at(when, std::move(call));
  }
  void send(int from, int to, const std::string& words) {
    if (from >= 0 && place(from).is_dead) return;
    const Duration left = std::max(runtime_->now(), from >= 0 ? place(from).asleep_until : Duration(0));
    Duration& last = last_[{from, to}];
    last = std::max(last, left + std::chrono::microseconds(50) + up_to(std::chrono::milliseconds(20)));
    const auto arrive = [this, from, to, words] {
      if (cut_.contains({from, to})) return;
      if (to >= 0) return place(to).keeper->hear(from, words);
      if (const auto answer = membership::answer_of_witness(witness_, words)) send(to, from, *answer);
    };
    if (to >= 0) return at(to, last, arrive);
    runtime_->call_at(last, arrive);
  }

  void plan() {
    const auto count = 1 + random_.below(6);
    for (std::uint64_t i = 0; i < count; ++i) {
      // Often close together, so that one happens while another is dealt with.
      const Duration when = i > 0 && random_.below(2) == 0 ? last_planned_ + up_to(std::chrono::milliseconds(60))
                                                           : up_to(troubles_end - std::chrono::seconds(1));
      last_planned_ = when;
      runtime_->call_at(when, [this] { trouble(); });
    }
  }
  void trouble() {
    const int seat = any_seat(), other = any_seat();
    const auto kind = random_.below(4);
    if (kind == 0 && fates_.stalls) {
      stall(seat);
    } else if (kind == 1 && fates_.cuts && other != seat) {
      cut(seat, other);
      if (random_.below(2) == 0) cut(other, seat);
    } else if (fates_.deaths) {
      kill(seat);
    }
  }
  void kill(int seat) {
    int living = 0;
    for (int one = 0; one < size_; ++one) living += acts(one) ? 1 : 0;
    if (!acts(seat) || living == 1) return;
    note(text("seat ", seat, " dies"));
    place(seat).is_dead = true;
    place(seat).keeper->end();
    announce(seat);
  }
  /// The launcher tells all others, or their connections to it end.
  void announce(int seat) {
    for (int other = 0; other < size_; ++other) {
      if (other == seat) continue;
      const Duration when = runtime_->now() + up_to(std::chrono::milliseconds(50));
      at(other, when,
         [this, seat, other] { has_launcher_ ? place(other).keeper->died(seat) : place(other).keeper->lose(seat); });
    }
  }
  void stall(int seat) {
    if (!acts(seat)) return;
    const Duration how_long =
        random_.below(2) == 0 ? up_to(std::chrono::milliseconds(800)) : up_to(std::chrono::seconds(6));
    note(text("seat ", seat, " stands still for ", seconds(how_long), " s"));
    place(seat).asleep_until = std::max(place(seat).asleep_until, runtime_->now() + how_long);
    is_troubled_ = is_troubled_ || how_long > std::chrono::milliseconds(800);
  }
  void cut(int from, int to) {
    note(text("a cut from ", from, " to ", to));
    cut_.insert({from, to});
    is_troubled_ = true;
  }

  void take(int seat, const membership::View& view) {
    note(text("seat ", seat, " takes ", membership::describe(view)));
    if (!std::binary_search(view.seats.begin(), view.seats.end(), seat))
      violation_ = text("seat ", seat, " takes ", membership::describe(view));
    place(seat).taken[view.number] = view.seats;
    for (int other = 0; other < size_; ++other) {
      const auto theirs = place(other).taken.find(view.number);
      if (place(other).is_dead || theirs == place(other).taken.end() || theirs->second == view.seats) continue;
      violation_ = text("seat ", seat, " takes ", membership::describe(view), ", seat ", other, " ",
                        membership::describe({view.number, theirs->second}));
    }
  }
  Task<> end() {
    for (int seat = 0; seat < size_; ++seat) runtime_->start("leaver", watch(seat), [](std::exception_ptr) {});
    co_await runtime_->sleep(all_ends);
    has_ended_ = true;
    for (int seat = 0; seat < size_; ++seat) place(seat).keeper->end();
    co_await runtime_->yield();  // those that wait for views end
  }
  /// A seat that leaves ends, which the others learn.
  Task<> watch(int seat) {
    const std::shared_ptr<membership::ViewKeeper> keeper = place(seat).keeper;
    std::uint32_t number = 0;
    while (!has_ended_) {
      Task<membership::View> waiting = keeper->after(number);
      std::exception_ptr left;
      try {
        number = (co_await std::move(waiting)).number;
      } catch (const Error&) {
        left = std::current_exception();
      }
      if (!left) continue;
      if (has_ended_ || place(seat).is_dead) co_return;
      note(text("seat ", seat, " leaves"));
      announce(seat);
      co_return;
    }
  }
  /// What is wrong where all has come to rest; "": nothing.
  std::string settled() {
    membership::Seats living;
    int left = 0;
    for (int seat = 0; seat < size_; ++seat) {
      if (acts(seat)) living.push_back(seat);
      left += !place(seat).is_dead && place(seat).keeper->has_left() ? 1 : 0;
    }
    if (left > 0 && !is_troubled_) return text(left, " seats have left, and all heard each other");
    if (living.empty()) return is_troubled_ ? "" : "nobody goes on";
    for (const int seat : living) {
      if (place(seat).keeper->view().seats != living)
        return text("seat ", seat, " is in ", membership::describe(place(seat).keeper->view()), " in the end");
    }
    return "";
  }

  Random random_;
  const std::unique_ptr<Runtime> runtime_;
  const Fates fates_;
  int size_ = 0;
  membership::ViewKeeperOptions options_;
  bool has_launcher_ = false, is_troubled_ = false, has_ended_ = false;
  std::vector<Place> places_;
  membership::Voter witness_;
  std::map<std::pair<int, int>, Duration> last_;
  std::set<std::pair<int, int>> cut_;
  Duration last_planned_{0};
  std::string violation_;
  std::vector<std::string> events_;
};

}  // namespace ripieno::testing
