#include "ripieno/transport/shared/link.h"

#include <unistd.h>

#include <algorithm>

namespace ripieno::transport {
namespace {

constexpr std::size_t shown_bytes =
    32 << 10;  // published in pieces of this size, so that one is read while the next is written

}  // namespace

void SharedPeer::ring_bell() {
  if (head->sleeping.load(std::memory_order_seq_cst) && head->sleeping.exchange(0, std::memory_order_seq_cst)) {
    const BellStroke stroke = BellStroke::now();
    [[maybe_unused]] const auto full_is_as_good = ::write(bell.get(), &stroke, sizeof stroke);
  }
}

SharedLink::SharedLink(Runtime& runtime, int rank, int peer, asio::ip::tcp::socket socket, LinkOptions options,
                       std::shared_ptr<Aborts> aborts, std::shared_ptr<const SharedOwn> own, SharedPeer other)
    : PeerLink(runtime, rank, peer, options, std::move(aborts)),
      socket_(std::move(socket)),
      own_(std::move(own)),
      other_(std::move(other)),
      ring_(own_->control->ring_to(peer)) {}

void SharedLink::start() {
  auto ended = [link = self()](asio::error_code error, std::size_t) {
    if (error == asio::error::operation_aborted) return;
    if (!error) {
      link->revoke(std::make_exception_ptr(Error(
          ErrorKind::mismatch, text("rank ", link->rank_, ": rank ", link->peer_, " sent bytes over tcp, where its ",
                                    "messages come through shared memory. Do all ranks run the same version?"))));
      return;
    }
    link->gone(error == asio::error::eof ? "connection closed" : error.message());
  };
  socket_.async_read_some(asio::buffer(&stray_, 1), ended);
}

// Sending ----------------------------------------------------------------------------------------------------------

Task<> SharedLink::send(std::shared_ptr<SharedLink> link, Message message, ConstBytes payload) {
  link->throw_if_aborted(message.channel.scope);
  if (link->ended()) std::rethrow_exception(link->failure("sending", message));
  std::optional<Place> place;
  if (payload.data() && payload.size() >= link->own_->placed_bytes) place = link->own_->arena->find(payload);
  if (!place && link->write_now(message, payload)) co_return;
  if (link->ended()) std::rethrow_exception(link->failure("sending", message));
  auto outgoing = std::make_shared<Outgoing>(link->runtime_, message, payload);
  outgoing->place = place;
  link->outgoing_.push_back(outgoing);
  link->progress();
  if (outgoing->sent) co_return;
  if (link->ended()) std::rethrow_exception(link->failure("sending", message));
  const Watched watched(link.get(), message);
  co_await outgoing->done.wait();
}

/// Writes a message at once if it need not wait; returns whether it did.
bool SharedLink::write_now(const Message& message, ConstBytes payload) {
  if (!outgoing_.empty() || ring_.full_for(2 * line_bytes + payload.size())) return false;
  Outgoing outgoing(runtime_, message, payload);
  try {
    write_one(outgoing);
  } catch (...) {
    revoke(std::current_exception());
    return false;
  }
  publish();
  return true;
}

void SharedLink::publish() {
  if (ring_.published()) return;
  ring_.publish();
  other_.ring_bell();
}

void SharedLink::write_header(const Outgoing& outgoing) {
  const Message& message = outgoing.message;
  const auto frame = [&] {
    return make_frame(message, options_.epoch, lanes_[message.channel].next_sent++, outgoing.payload.size());
  };
  FrameBytes header = encode(outgoing.tells ? *outgoing.tells : frame());
  const std::optional<Place>& place = outgoing.place;
  if (place) header[placed_mark] = std::byte{1};
  std::memcpy(ring_.space(header.size()).data(), header.data(), header.size());
  ring_.advance(header.size());
  moved_out_ += header.size();
  if (!place) return;
  const PlaceLine line{place->offset, next_ticket_, place->region};
  std::memcpy(ring_.space(line_bytes).data(), &line, sizeof line);
  ring_.advance(line_bytes);
}

/// Writes as much as there is room for; returns whether all of it is in the ring.
bool SharedLink::write_one(Outgoing& outgoing) {
  const std::uint64_t size = outgoing.payload.size();
  if (!outgoing.begun) {
    if (ring_.room() < 2 * line_bytes || (outgoing.place && placed_out_.size() == max_tickets)) return false;
    write_header(outgoing);
    outgoing.begun = true;
    if (outgoing.place) return true;
  }
  while (outgoing.offset < size) {
    const Bytes into = ring_.space(std::min<std::uint64_t>(size - outgoing.offset, shown_bytes));
    if (into.empty()) return false;
    if (outgoing.payload.data()) {
      std::memcpy(into.data(), outgoing.payload.data() + outgoing.offset, into.size());
    } else {
      std::memset(into.data(), 0, into.size());
    }
    ring_.advance(into.size());
    moved_out_ += into.size();
    outgoing.offset += into.size();
    if (into.size() == shown_bytes) publish();
  }
  return true;
}

bool SharedLink::write() {
  bool any = false;
  while (!outgoing_.empty()) {
    const std::shared_ptr<Outgoing> outgoing = outgoing_.front();
    const bool through = write_one(*outgoing);
    any |= !ring_.published() || through;
    if (!through) {
      publish();
      // Announce the wait for room, then check once more.
      ring_.want_room(true);
      if (ring_.room() < 2 * line_bytes || (outgoing->place && placed_out_.size() == max_tickets)) return any;
      continue;
    }
    outgoing_.pop_front();
    if (outgoing->place) {
      placed_out_.emplace(next_ticket_++, outgoing);
    } else {
      complete(*outgoing);
    }
  }
  publish();
  ring_.want_room(false);
  return any;
}

/// Queues the abort ahead of messages that have not begun.
void SharedLink::tell(const Abort& abort) {
  if (has_ended()) return;
  const auto reason = std::as_bytes(std::span(abort.reason));
  const std::vector<std::byte> own(reason.begin(), reason.end());
  const auto first = outgoing_.begin() + (!outgoing_.empty() && outgoing_.front()->begun ? 1 : 0);
  outgoing_.insert(first, std::make_shared<Outgoing>(runtime_, make_frame(abort, options_.epoch), own));
  try {
    write();
  } catch (...) {
    revoke(std::current_exception());
  }
}

bool SharedLink::take_tickets() {
  bool any = false;
  while (ring_.has_ticket()) {
    const std::uint64_t ticket = ring_.next_ticket();
    const auto found = placed_out_.find(ticket);
    if (found == placed_out_.end()) {
      fail(ErrorKind::mismatch, "rank ", rank_, ": rank ", peer_, " gave ticket ", ticket,
           " back, which it had not got");
    }
    complete(*found->second);
    ++moved_out_;
    placed_out_.erase(found);
    any = true;
  }
  return any;
}

// Lifetime ---------------------------------------------------------------------------------------------------------

bool SharedLink::progress() {
  if (lingers()) return say_rest();
  if (ended()) return false;
  bool any = false;
  try {
    any |= take_tickets();
    any |= write();
    any |= read();
  } catch (...) {
    refuse(std::current_exception());
    return true;
  }
  end_if_drained();
  return any;
}

void SharedLink::refuse(std::exception_ptr error) { give_up(incoming_ ? incoming_->frame.channel.scope : 0, error); }

bool SharedLink::has_work() {
  if (ended() && !lingers()) return false;
  try {
    if (!outgoing_.empty() && ring_.room() >= 2 * line_bytes &&
        !(outgoing_.front()->place && placed_out_.size() == max_tickets)) {
      return true;
    }
    if (lingers()) return false;
    if (ring_.has_ticket()) return true;
    return !is_paused() && other_.ring.readable() > 0;
  } catch (const Error&) {
    return true;  // progress() will meet it too
  }
}

void SharedLink::asked() {
  if (ended()) return;
  try {
    read();
  } catch (...) {
    return refuse(std::current_exception());
  }
  end_if_drained();
}

/// The hub then continues what this makes room for.
void SharedLink::drop(const Abort& abort) {
  drop_outgoing(abort);
  if (!incoming_ || !incoming_->lane || incoming_->frame.channel.scope != abort.scope) return;
  Incoming& in = *incoming_;
  if (in.arrived) unasked_ -= in.arrived->cost();
  in.posted.reset();
  in.arrived.reset();
  in.lane = nullptr;
  if (!in.in_place) return;
  give_back(in.ticket);
  incoming_.reset();
}

/// Copies the unwritten rest of a payload, whose owner no longer waits.
void SharedLink::keep_rest(Outgoing& outgoing) {
  if (!outgoing.own.empty()) return;
  const std::uint64_t written = std::exchange(outgoing.offset, 0);
  const ConstBytes all = outgoing.payload;
  if (!all.data()) {
    outgoing.payload = ConstBytes(static_cast<const std::byte*>(nullptr), all.size() - written);
    return;
  }
  outgoing.own.assign(all.begin() + static_cast<std::ptrdiff_t>(written), all.end());
  outgoing.payload = outgoing.own;
}

void SharedLink::drop_outgoing(const Abort& abort) {
  for (auto at = outgoing_.begin(); at != outgoing_.end();) {
    Outgoing& one = **at;
    if (one.tells || one.message.channel.scope != abort.scope) {
      ++at;
      continue;
    }
    one.done.fail(abort.error);
    one.error = abort.error;  // from here on its operation's name may be gone
    if (!one.begun) {
      at = outgoing_.erase(at);
      continue;
    }
    keep_rest(one);
    ++at;
  }
  for (auto& [ticket, outgoing] : placed_out_) {
    if (outgoing->message.channel.scope == abort.scope) outgoing->error = abort.error;
  }
}

void SharedLink::cut_off(std::exception_ptr error) {
  const auto is_aborted = [](const auto& entry) { return bool(entry.second->error); };
  if (!ended() && std::any_of(placed_out_.begin(), placed_out_.end(), is_aborted)) give_up(0, error);
}

void SharedLink::forget(const Arrived& arrived) {
  if (!arrived.in_place) return;
  --placed_in_;
  give_back(arrived.ticket);
}

/// The connection has ended: nothing more will be written, but everything written can still be read.
void SharedLink::gone(const std::string& why) {
  if (lingers()) return close_connection();
  if (ended()) return;
  gone_ = why;
  progress();
}

void SharedLink::end_if_drained() {
  if (gone_.empty() || ended()) return;
  try {
    if (!is_paused() && other_.ring.readable() == 0) return lose(gone_);
  } catch (...) {
    return revoke(std::current_exception());
  }
  fail_sends(gone_);
}

void SharedLink::fail_sends(const std::string& why) {
  auto fail_one = [&](Outgoing& outgoing) {
    if (!outgoing.error) outgoing.error = error_ ? error_ : loss(why, "sending", outgoing.message);
    outgoing.done.fail(outgoing.error);
  };
  for (auto& outgoing : std::exchange(outgoing_, {})) fail_one(*outgoing);
  for (auto& [ticket, outgoing] : std::exchange(placed_out_, {})) fail_one(*outgoing);
}

std::optional<Frame> SharedLink::unasked(Channel channel) const {
  const auto lane = lanes_.find(channel);
  if (lane != lanes_.end() && !lane->second.arrived.empty()) return lane->second.arrived.front().frame;
  if (incoming_ && incoming_->lane && !incoming_->posted && incoming_->frame.channel == channel)
    return incoming_->frame;
  return std::nullopt;
}

void SharedLink::hang_up() {
  close_connection();
  incoming_.reset();
  fail_sends(lost_);
}

void SharedLink::say_farewell() {
  if (!lost_.empty() || !gone_.empty() || !is_telling()) return hang_up();
  incoming_.reset();
  std::deque<std::shared_ptr<Outgoing>> last;
  if (outgoing_.front()->begun && !outgoing_.front()->tells) {
    keep_rest(*outgoing_.front());
    last.push_back(outgoing_.front());
  }
  std::copy_if(outgoing_.begin(), outgoing_.end(), std::back_inserter(last),
               [](const auto& one) { return one->tells; });
  if (!placed_out_.empty()) ring_.close();  // before their memory changes: the peer then takes none of it
  fail_sends(lost_);
  outgoing_ = std::move(last);
  farewell_ = runtime_.call_at(runtime_.now() + telling_limit, [link = self()] { link->close_connection(); });
}

bool SharedLink::say_rest() {
  bool any = true;
  try {
    any = write();
    if (!outgoing_.empty()) return any;
  } catch (...) {  // the peer's side of the ring is broken
  }
  close_connection();
  return any;
}

void SharedLink::close_connection() {
  if (lingers()) outgoing_.clear();
  if (farewell_) runtime_.cancel(*std::exchange(farewell_, std::nullopt));
  ring_.close();
  asio::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

}  // namespace ripieno::transport
