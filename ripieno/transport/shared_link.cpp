#include "ripieno/transport/shared_link.h"

#include <unistd.h>

#include <algorithm>

namespace ripieno {
namespace {

constexpr std::size_t shown_bytes = 32 << 10;  // shown at once, so that it is read while the next is written
constexpr std::size_t placed_mark = 38;        // the header's byte that says: a place follows, no payload

/// The line that follows the header of what lies in registered memory.
struct PlaceLine {
  std::uint64_t offset, ticket;
  std::uint32_t region;
};

}  // namespace

void SharedPeer::ring_bell() {
  if (head->sleeping.load(std::memory_order_seq_cst) && head->sleeping.exchange(0, std::memory_order_seq_cst)) {
    const char ding = 1;
    [[maybe_unused]] const auto full_is_as_good = ::write(bell.get(), &ding, 1);
  }
}

SharedLink::SharedLink(Runtime& runtime, int rank, int peer, asio::ip::tcp::socket socket, TcpOptions options,
                       std::shared_ptr<const SharedOwn> own, SharedPeer other)
    : PeerLink(runtime, rank, peer, options),
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
  const std::uint64_t id = link->begin_send(message);
  std::exception_ptr error;
  try {
    co_await outgoing->done.wait();
  } catch (...) {
    error = std::current_exception();
  }
  link->end_send(id);
  if (error) std::rethrow_exception(error);
}

/// A message that needs to wait for nothing.
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

void SharedLink::write_header(const Message& message, std::uint64_t payload, std::optional<Place> place) {
  const std::uint32_t sequence = lanes_[message.channel].next_sent++;
  FrameBytes header = encode(make_frame(message, options_.epoch, sequence, payload));
  if (place) header[placed_mark] = std::byte{1};
  std::memcpy(ring_.space(header.size()).data(), header.data(), header.size());
  ring_.advance(header.size());
  if (!place) return;
  const PlaceLine line{place->offset, next_ticket_, place->region};
  std::memcpy(ring_.space(line_bytes).data(), &line, sizeof line);
  ring_.advance(line_bytes);
}

/// Whether it is through with the ring.
bool SharedLink::write_one(Outgoing& outgoing) {
  const std::uint64_t size = outgoing.payload.size();
  if (!outgoing.begun) {
    if (ring_.room() < 2 * line_bytes || (outgoing.place && placed_out_.size() == max_tickets)) return false;
    write_header(outgoing.message, size, outgoing.place);
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
      // Who waits for room says so, and looks once more.
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
    placed_out_.erase(found);
    any = true;
  }
  return any;
}

// Receiving --------------------------------------------------------------------------------------------------------

/// Whether a message has begun.
bool SharedLink::read_header() {
  if (other_.ring.readable() < line_bytes) return false;
  FrameBytes bytes;
  std::memcpy(bytes.data(), other_.ring.piece(bytes.size()).data(), bytes.size());
  const bool placed = bytes[placed_mark] == std::byte{1};
  if (placed) bytes[placed_mark] = std::byte{0};
  const std::optional<Frame> frame = decode(bytes);
  if (!frame || (placed && other_.ring.readable() < 2 * line_bytes)) {
    fail(ErrorKind::mismatch, "rank ", rank_, ": rank ", peer_,
         " sent bytes that are not a message's header. Do all ranks run the same version?");
  }
  bool wanted = other_.ring.advance(bytes.size());
  incoming_.emplace(Incoming{*frame, &admit(*frame)});
  if (placed) {
    PlaceLine line;
    std::memcpy(&line, other_.ring.piece(sizeof line).data(), sizeof line);
    wanted = other_.ring.advance(line_bytes);
    incoming_->ticket = line.ticket;
    try {
      incoming_->lies = other_.regions.at({line.region, line.offset}, frame->payload);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::mismatch) throw;
      lose(error.what());  // the peer is gone, and its memory with it
      return false;
    }
  }
  if (wanted) other_.ring_bell();
  return true;
}

/// Where the message goes. False: nobody has asked for it and it exceeds the credit.
bool SharedLink::decide() {
  Incoming& in = *incoming_;
  if (in.posted || in.arrived) return true;
  if (!in.lane->posted.empty()) {
    in.posted = in.lane->posted.front();
    if (auto wrong = mismatch(in.frame, in.posted->message, in.posted->sink.payload())) std::rethrow_exception(wrong);
    return true;
  }
  Arrived arrived{in.frame, nullptr, in.lies, in.ticket};
  if (unasked_ + arrived.cost() > options_.unasked_bytes) return false;
  unasked_ += arrived.cost();
  if (!in.lies) arrived.payload = scratch(in.frame.payload);
  in.arrived = std::move(arrived);
  return true;
}

/// Whether all of it is there.
bool SharedLink::read_payload() {
  Incoming& in = *incoming_;
  if (in.lies) return true;
  while (in.offset < in.frame.payload) {
    const ConstBytes part = other_.ring.piece(in.frame.payload - in.offset);
    if (part.empty()) return false;
    if (in.posted) {
      in.posted->sink.take(in.offset, part);
    } else {
      std::memcpy(in.arrived->payload.get() + in.offset, part.data(), part.size());
    }
    in.offset += part.size();
    if (other_.ring.advance(part.size())) other_.ring_bell();
  }
  return true;
}

void SharedLink::finish() {
  Incoming in = std::move(*incoming_);
  incoming_.reset();
  if (in.posted) {
    if (in.lies && !take_placed(in.lies, in.frame.payload, in.ticket, in.posted->sink)) return withdrawn();
    serve(*in.lane);
  } else if (in.lane->posted.empty()) {
    if (in.lies) ++placed_in_;
    in.lane->arrived.push_back(std::move(*in.arrived));
  } else {  // asked for meanwhile
    unasked_ -= in.arrived->cost();
    const std::shared_ptr<Posted> posted = in.lane->posted.front();
    if (auto wrong = mismatch(in.frame, posted->message, posted->sink.payload())) std::rethrow_exception(wrong);
    if (in.lies) ++placed_in_;
    give(*in.arrived, posted->sink);
    serve(*in.lane);
  }
}

bool SharedLink::read() {
  bool any = false;
  while (!ended()) {
    if (!incoming_ && !read_header()) return any;
    if (!decide()) return any;
    const std::uint64_t before = incoming_->offset;
    const bool whole = read_payload();
    any |= whole || incoming_->offset != before;
    if (!whole) return any;
    finish();
  }
  return any;
}

/// False: the sender has ended the connection meanwhile, and what was read is nothing.
bool SharedLink::take_placed(const std::byte* lies, std::uint64_t bytes, std::uint64_t ticket, const Sink& sink) {
  sink.take(0, ConstBytes(lies, bytes));
  if (other_.ring.withdrawn()) return false;
  other_.ring.give_back(ticket);
  other_.ring_bell();
  return true;
}

void SharedLink::give(const Arrived& arrived, const Sink& sink) {
  if (!arrived.lies) return PeerLink::give(arrived, sink);
  --placed_in_;
  if (take_placed(arrived.lies, arrived.frame.payload, arrived.ticket, sink)) return;
  withdrawn();
  const Message message = arrived.frame.message();
  std::rethrow_exception(failure("waiting for", message));
}

bool SharedLink::take_in() {
  if (placed_in_ == 0 || error_) return false;
  bool any = false;
  for (auto& [channel, lane] : lanes_) {
    for (Arrived& arrived : lane.arrived) {
      const std::uint64_t bytes = arrived.frame.payload;
      if (!arrived.lies || unasked_ + bytes > options_.unasked_bytes) continue;
      Scratch payload = scratch(bytes);
      const Sink sink{Bytes(payload.get(), bytes)};
      if (!take_placed(arrived.lies, bytes, arrived.ticket, sink)) {
        withdrawn();
        return true;
      }
      unasked_ += bytes;
      --placed_in_;
      arrived.payload = std::move(payload);
      arrived.lies = nullptr;
      any = true;
    }
  }
  return any;
}

// Its life ---------------------------------------------------------------------------------------------------------

bool SharedLink::progress() {
  if (ended()) return false;
  bool any = false;
  try {
    any |= take_tickets();
    any |= write();
    any |= read();
  } catch (...) {
    revoke(std::current_exception());
    return true;
  }
  end_if_drained();
  return any;
}

bool SharedLink::has_work() {
  if (ended()) return false;
  try {
    if (ring_.has_ticket()) return true;
    if (!outgoing_.empty() && ring_.room() >= 2 * line_bytes &&
        !(outgoing_.front()->place && placed_out_.size() == max_tickets)) {
      return true;
    }
    const bool paused = incoming_ && !incoming_->posted && !incoming_->arrived && incoming_->lane->posted.empty();
    return !paused && other_.ring.readable() > 0;
  } catch (const Error&) {
    return true;  // progress() will meet it too
  }
}

void SharedLink::asked() {
  if (ended()) return;
  try {
    read();
  } catch (...) {
    return revoke(std::current_exception());
  }
  end_if_drained();
}

/// The connection has ended: nothing more will be written, but what was is there to be read.
void SharedLink::gone(const std::string& why) {
  if (ended()) return;
  gone_ = why;
  progress();
}

void SharedLink::end_if_drained() {
  if (gone_.empty() || ended()) return;
  try {
    const bool paused = incoming_ && !incoming_->posted && !incoming_->arrived;
    if (!paused && other_.ring.readable() == 0) return lose(gone_);
  } catch (...) {
    return revoke(std::current_exception());
  }
  fail_sends(gone_);
}

void SharedLink::fail_sends(const std::string& why) {
  auto fail_one = [&](Outgoing& outgoing) { outgoing.done.fail(error_ ? error_ : loss(why, "sending", outgoing.message)); };
  for (auto& outgoing : std::exchange(outgoing_, {})) fail_one(*outgoing);
  for (auto& [ticket, outgoing] : std::exchange(placed_out_, {})) fail_one(*outgoing);
}

std::optional<Frame> SharedLink::unasked(Channel channel) const {
  const auto lane = lanes_.find(channel);
  if (lane != lanes_.end() && !lane->second.arrived.empty()) return lane->second.arrived.front().frame;
  if (incoming_ && !incoming_->posted && incoming_->frame.channel == channel) return incoming_->frame;
  return std::nullopt;
}

void SharedLink::hang_up() {
  ring_.close();
  asio::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
  incoming_.reset();
  fail_sends(lost_);
}

}  // namespace ripieno
