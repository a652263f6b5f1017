#include "ripieno/transport/peer_link.h"

#include <algorithm>

#include "ripieno/transport/inquiry.h"

namespace ripieno::transport {
namespace {

constexpr int looks = 4;  // of the watchdog, within the timeout

}  // namespace

Task<> PeerLink::receive(std::shared_ptr<PeerLink> link, Message message, Sink sink) {
  link->throw_if_aborted(message.channel.scope);
  if (link->error_) std::rethrow_exception(link->error_);
  Lane& lane = link->lanes_[message.channel];
  if (lane.posted.empty() && !lane.arrived.empty()) {
    const Arrived arrived = std::move(lane.arrived.front());
    lane.arrived.pop_front();
    link->unasked_ -= arrived.cost();
    link->asked();
    if (auto wrong = link->mismatch(arrived.frame, message, sink.payload())) {
      link->give_up(message.channel.scope, wrong);
      std::rethrow_exception(wrong);
    }
    link->give(arrived, sink);
    co_return;
  }
  if (link->ended()) std::rethrow_exception(link->failure("waiting for", message));
  auto posted = std::make_shared<Posted>(link->runtime_, message, sink);
  lane.posted.push_back(posted);
  link->asked();
  if (posted->filled) co_return;
  link->watch();
  co_await posted->done.wait();
}

void PeerLink::give(const Arrived& arrived, const Sink& sink) {
  sink.take(0, ConstBytes(arrived.payload.get(), arrived.frame.payload));
}

void PeerLink::check_epoch(const Frame& frame) const {
  if (frame.epoch != options_.epoch) {
    fail(ErrorKind::mismatch, "rank ", rank_, " is in epoch ", options_.epoch, ", but rank ", peer_, " sent ",
         describe(frame.message(), frame.payload), " in epoch ", frame.epoch);
  }
}

PeerLink::Lane& PeerLink::admit(const Frame& frame) {
  ++moved_in_;
  Lane& lane = lanes_[frame.channel];
  if (frame.sequence != lane.next_received) {
    fail(ErrorKind::mismatch, "rank ", rank_, ": rank ", peer_, " sent message ", frame.sequence, " of its channel, ",
         describe(frame.message(), frame.payload), ", where message ", lane.next_received, " was due");
  }
  ++lane.next_received;
  return lane;
}

std::shared_ptr<PeerLink::Posted> PeerLink::first_unbegun(const Lane& lane) {
  const auto at =
      std::find_if(lane.posted.begin(), lane.posted.end(), [](const auto& posted) { return !posted->begun; });
  return at == lane.posted.end() ? nullptr : *at;
}

void PeerLink::serve(Lane& lane, std::shared_ptr<Posted> posted) {
  if (!posted) posted = lane.posted.front();
  lane.posted.erase(std::find(lane.posted.begin(), lane.posted.end(), posted));
  posted->filled = true;
  posted->done.set();
}

void PeerLink::lose(const std::string& why) {
  if (ended()) return;
  lost_ = why;
  hang_up();
  fail_pending();
  aborts_->link_ended(peer_);
}

void PeerLink::revoke(std::exception_ptr error) {
  if (error_) return;
  error_ = error;
  hang_up();
  fail_pending();
  aborts_->link_ended(peer_);
}

void PeerLink::give_up(Scope scope, std::exception_ptr error) {
  if (error_) return;
  gave_up_ = true;
  tell(own_abort(scope, error, rank_));
  if (error_) return;
  error_ = error;
  say_farewell();
  fail_pending();
  aborts_->link_ended(peer_);
}

void PeerLink::fail_pending() {
  if (watchdog_) runtime_.cancel(*std::exchange(watchdog_, std::nullopt));
  for (auto& [channel, lane] : lanes_) {
    for (auto& posted : std::exchange(lane.posted, {})) {
      if (!posted->in_use) posted->done.fail(failure("waiting for", posted->message));
    }
    if (error_) lane.arrived.clear();
  }
  asked();
}

void PeerLink::end(const Abort& abort) {
  for (auto at = lanes_.begin(); at != lanes_.end();) {
    if (at->first.scope != abort.scope) {
      ++at;
      continue;
    }
    for (auto& posted : at->second.posted) {
      if (!posted->in_use) posted->done.fail(abort.error);
    }
    for (const Arrived& arrived : at->second.arrived) {
      unasked_ -= arrived.cost();
      forget(arrived);
    }
    at = lanes_.erase(at);
  }
  drop(abort);
}

bool PeerLink::waits() const {
  return !sending_.empty() ||
         std::any_of(lanes_.begin(), lanes_.end(), [](const auto& entry) { return !entry.second.posted.empty(); });
}

std::vector<Message> PeerLink::posted() const {
  std::vector<Message> messages;
  for (const auto& [channel, lane] : lanes_) {
    if (!lane.posted.empty()) messages.push_back(lane.posted.front()->message);
  }
  return messages;
}

std::exception_ptr PeerLink::failure(const char* doing, const Message& message) const {
  return error_ ? error_ : loss(lost_, doing, message);
}

std::exception_ptr PeerLink::loss(const std::string& why, const char* doing, const Message& message) const {
  return std::make_exception_ptr(Error(Loss{peer_, Lost::ended}, text("rank ", rank_, ": lost rank ", peer_, " (", why,
                                                                      ") while ", doing, " ", describe(message))));
}

std::exception_ptr PeerLink::mismatch(const Frame& frame, const Message& expected, std::uint64_t payload) const {
  const Message sent = frame.message();
  if (expected.operation == sent.operation && sent.type == expected.type && sent.count == expected.count &&
      frame.payload == payload) {
    return nullptr;
  }
  return std::make_exception_ptr(
      Error(ErrorKind::mismatch, text("rank ", rank_, " waits for ", describe(expected, payload), ", but rank ", peer_,
                                      " sent ", describe(sent, frame.payload), ": the ranks do not do the same")));
}

PeerLink::Watched::Watched(PeerLink* link, const Message& message) : link_(link), id_(link->next_send_++) {
  link->sending_[id_] = Sending{message, link->runtime_.now()};
  link->watch();
}

void PeerLink::Seen::look(std::uint64_t moved, Duration now) {
  if (moved != bytes) at = now;
  bytes = moved;
}

/// One timer for all operations, set again while none is overdue: cheaper than a timer for each. It looks several times
/// within the timeout whether bytes have moved.
void PeerLink::watch() {
  if (watchdog_ || is_asking_ || ended()) return;
  seen_out_.bytes = moved_out_;  // what has moved while nothing was watched does not count
  seen_in_.bytes = moved_in_;
  auto expired = [weak = weak_from_this()] {
    if (auto link = weak.lock()) link->expire();
  };
  const Duration now = runtime_.now();
  Duration end = now + std::max(options_.timeout / looks, Duration(1));
  for (const auto& [id, sending] : sending_)
    end = std::min(end, std::max(sending.since, seen_out_.at) + options_.timeout);
  for (const auto& [channel, lane] : lanes_) {
    if (!lane.posted.empty()) end = std::min(end, std::max(lane.posted.front()->since, seen_in_.at) + options_.timeout);
  }
  watchdog_ = runtime_.call_at(std::max(end, asleep_until()), expired);
}

void PeerLink::expire() {
  watchdog_.reset();
  if (ended()) return;
  if (asleep_until() > runtime_.now()) return watch();
  seen_out_.look(moved_out_, runtime_.now());
  seen_in_.look(moved_in_, runtime_.now());
  const std::optional<Overdue> overdue = find_overdue();
  if (!overdue) {
    if (waits()) watch();
    return;
  }
  is_asking_ = true;
  find_hang([weak = weak_from_this(), overdue = *overdue](const Hang& hang) {
    if (const auto link = weak.lock()) link->give_up_on(overdue, hang);
  });
}

std::optional<PeerLink::Overdue> PeerLink::find_overdue() {
  const Duration limit = runtime_.now() - options_.timeout;
  for (const auto& [id, sending] : sending_) {
    if (std::max(sending.since, seen_out_.at) > limit) continue;
    const auto is_still_waited = [this, id = id] { return sending_.contains(id); };
    return Overdue{sending.message.channel.scope, "sending " + describe(sending.message), is_still_waited};
  }
  for (const auto& [channel, lane] : lanes_) {
    if (lane.posted.empty()) continue;
    const auto& first = lane.posted.front();
    if (std::max(first->since, seen_in_.at) > limit) continue;
    const auto is_still_waited = [this, channel = channel, first] {
      const auto at = lanes_.find(channel);
      return at != lanes_.end() && !at->second.posted.empty() && at->second.posted.front() == first;
    };
    return Overdue{channel.scope, "waiting for " + describe(first->message), is_still_waited};
  }
  return std::nullopt;
}

void PeerLink::find_hang(std::function<void(const Hang&)> found) {
  if (const auto inquiry = aborts_->inquiry()) return inquiry->ask(options_.timeout, std::move(found));
  found({{peer_}, ""});
}

void PeerLink::give_up_on(const Overdue& overdue, const Hang& hang) {
  is_asking_ = false;
  if (ended()) return;
  if (!overdue.is_still_waited()) {
    if (waits()) watch();
    return;
  }
  give_up(overdue.scope, std::make_exception_ptr(gave_up_because_of(hang, rank_, options_.timeout, overdue.doing)));
}

}  // namespace ripieno::transport
