#include "ripieno/transport/tcp_link.h"

#include <algorithm>
#include <array>
#include <asio/detached.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/write.hpp>
#include <cstring>
#include <limits>

#include "ripieno/core/kernels.h"

namespace ripieno {
namespace {

constexpr std::size_t scratch_bytes = 256 << 10;  // a chunk that stays in the second-level cache until it is added

/// Asio moves at most 64 KiB per system call unless told otherwise.
std::size_t all_at_once(const asio::error_code& error, std::size_t) {
  return error ? 0 : std::numeric_limits<std::size_t>::max();
}

/// What a payload without data looks like on the wire.
const std::array<std::byte, 64 << 10> zeros{};

std::vector<asio::const_buffer> gather(const FrameBytes& header, ConstBytes payload) {
  std::vector<asio::const_buffer> buffers{asio::buffer(header)};
  if (payload.data()) {
    buffers.emplace_back(payload.data(), payload.size());
  } else {
    for (std::size_t left = payload.size(); left > 0; left -= std::min(left, zeros.size())) {
      buffers.emplace_back(zeros.data(), std::min(left, zeros.size()));
    }
  }
  return buffers;
}

}  // namespace

Sink::Sink(FloatSpan into, DType wire, Reduce how) : into_(into), wire_(wire), how_(how) {
  convert_ = how == Reduce::add || wire != into.type;
  if (!convert_) straight_ = into.bytes();
}

std::uint64_t Sink::payload() const { return convert_ ? into_.count * size_of(wire_) : straight_.size(); }

std::optional<Bytes> Sink::straight() const {
  if (convert_ || !straight_.data()) return std::nullopt;
  return straight_;
}

void Sink::take(std::uint64_t offset, Bytes part) const {
  if (!convert_) {
    if (straight_.data() && !part.empty()) std::memcpy(straight_.data() + offset, part.data(), part.size());
    return;
  }
  const std::size_t first = offset / size_of(wire_), count = part.size() / size_of(wire_);
  const FloatSpan from(part.data(), count, wire_);
  const FloatSpan into = into_.slice(first, first + count);
  if (how_ == Reduce::add) {
    add(into, from);
  } else {
    convert(into, from);
  }
}

TcpLink::TcpLink(Runtime& runtime, int rank, int peer, asio::ip::tcp::socket socket, TcpOptions options)
    : runtime_(runtime),
      rank_(rank),
      peer_(peer),
      options_(options),
      socket_(std::move(socket)),
      writing_(runtime),
      scratch_(new std::byte[scratch_bytes]) {
  asio::error_code error;
  socket_.set_option(asio::ip::tcp::no_delay(true), error);
  if (error) lose(error.message());
}

void TcpLink::start() { asio::co_spawn(runtime_.context(), pump(shared_from_this()), asio::detached); }

Task<> TcpLink::send(std::shared_ptr<TcpLink> link, Message message, ConstBytes payload) {
  const std::uint64_t id = link->next_send_++;
  link->sending_[id] = Sending{message, link->runtime_.now()};
  link->watch();
  Mutex::Lock lock = co_await link->writing_.lock();
  if (!link->ended()) {
    const std::uint64_t sequence = link->lanes_[message.channel].next_sent++;
    const FrameBytes header = encode(make_frame(message, link->options_.epoch, sequence, payload.size()));
    const std::vector<asio::const_buffer> buffers = gather(header, payload);
    asio::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await asio::async_write(link->socket_, buffers, all_at_once, token);
    link->sending_.erase(id);
    if (!error && !link->error_) co_return;
    // The pump learns by itself that the peer is gone, after it has read what the peer still had to say.
    if (!link->ended())
      fail(ErrorKind::peer, "rank ", link->rank_, ": lost rank ", link->peer_, " (", error.message(),
           ") while sending ", describe(message));
  }
  link->sending_.erase(id);
  std::rethrow_exception(link->failure("sending", message));
}

Task<> TcpLink::receive(std::shared_ptr<TcpLink> link, Message message, Sink sink) {
  if (link->error_) std::rethrow_exception(link->error_);
  Lane& lane = link->lanes_[message.channel];
  if (lane.posted.empty() && !lane.arrived.empty()) {
    const Arrived arrived = std::move(lane.arrived.front());
    lane.arrived.pop_front();
    link->unasked_ -= cost(arrived.frame);
    link->wake();
    if (auto wrong = link->mismatch(arrived.frame, message, sink.payload())) {
      link->revoke(wrong);
      std::rethrow_exception(wrong);
    }
    sink.take(0, Bytes(arrived.payload.get(), arrived.frame.payload));
    co_return;
  }
  if (link->ended()) std::rethrow_exception(link->failure("waiting for", message));
  auto posted = std::make_shared<Posted>(link->runtime_, message, sink);
  lane.posted.push_back(posted);
  link->wake();
  link->watch();
  co_await posted->done.wait();
}

Task<> TcpLink::pump(std::shared_ptr<TcpLink> link) {
  try {
    bool more = true;
    while (more) more = co_await link->pump_one();
  } catch (...) {
    link->revoke(std::current_exception());
  }
}

Task<bool> TcpLink::pump_one() {
  FrameBytes bytes;
  const asio::mutable_buffer buffer(bytes.data(), bytes.size());
  if (!co_await read(buffer)) co_return false;
  const std::optional<Frame> decoded = decode(bytes);
  if (!decoded) {
    fail(ErrorKind::mismatch, "rank ", rank_, ": rank ", peer_,
         " sent bytes that are not a message's header. Do all ranks ", "run the same version?");
  }
  const Frame frame = *decoded;
  if (frame.epoch != options_.epoch) {
    fail(ErrorKind::mismatch, "rank ", rank_, " is in epoch ", options_.epoch, ", but rank ", peer_, " sent ",
         describe(frame.message(), frame.payload), " in epoch ", frame.epoch);
  }
  Lane* lane = &lanes_[frame.channel];
  if (frame.sequence != lane->next_received) {
    fail(ErrorKind::mismatch, "rank ", rank_, ": rank ", peer_, " sent message ", frame.sequence, " of its channel, ",
         describe(frame.message(), frame.payload), ", where message ", lane->next_received, " was due");
  }
  ++lane->next_received;
  while (!ended() && lane->posted.empty() && unasked_ + cost(frame) > options_.unasked_bytes) co_await changed();
  if (ended()) co_return false;
  if (lane->posted.empty()) {
    if (!co_await keep(frame, lane)) co_return false;
  } else {
    const std::shared_ptr<Posted> posted = lane->posted.front();
    if (!co_await fill(frame, posted)) co_return false;
    lane->posted.pop_front();
    posted->done.set();
  }
  co_return true;
}

/// False: the connection has ended.
Task<bool> TcpLink::read(asio::mutable_buffer into) {
  asio::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  co_await asio::async_read(socket_, into, all_at_once, token);
  if (error) lose(error == asio::error::eof ? "connection closed" : error.message());
  co_return !ended();
}

/// Reads a payload to the receive that waits for it.
Task<bool> TcpLink::fill(Frame frame, std::shared_ptr<Posted> posted) {
  if (auto wrong = mismatch(frame, posted->message, posted->sink.payload())) std::rethrow_exception(wrong);
  if (const std::optional<Bytes> straight = posted->sink.straight()) {
    const asio::mutable_buffer buffer(straight->data(), straight->size());
    co_return co_await read(buffer);
  }
  for (std::uint64_t offset = 0; offset < frame.payload; offset += scratch_bytes) {
    const Bytes part(scratch_.get(), std::min<std::uint64_t>(frame.payload - offset, scratch_bytes));
    const asio::mutable_buffer buffer(part.data(), part.size());
    if (!co_await read(buffer)) co_return false;  // the receiver may be gone: its memory is not touched any more
    posted->sink.take(offset, part);
  }
  co_return true;
}

/// Reads a payload that nobody has asked for yet; its size is within the credit.
Task<bool> TcpLink::keep(Frame frame, Lane* lane) {
  unasked_ += cost(frame);
  std::unique_ptr<std::byte[]> payload(new std::byte[frame.payload]);
  const asio::mutable_buffer buffer(payload.get(), frame.payload);
  if (!co_await read(buffer)) co_return false;
  if (lane->posted.empty()) {
    Arrived arrived{frame, std::move(payload)};
    lane->arrived.push_back(std::move(arrived));
    co_return true;
  }
  // Asked for meanwhile.
  unasked_ -= cost(frame);
  const std::shared_ptr<Posted> posted = lane->posted.front();
  if (auto wrong = mismatch(frame, posted->message, posted->sink.payload())) std::rethrow_exception(wrong);
  const Bytes part(payload.get(), frame.payload);
  posted->sink.take(0, part);
  lane->posted.pop_front();
  posted->done.set();
  co_return true;
}

Task<> TcpLink::changed() {
  auto start = [this](Resume resume) { paused_ = std::move(resume); };
  return suspend(start);
}

void TcpLink::wake() {
  if (paused_) asio::post(runtime_.context(), [resume = std::exchange(paused_, nullptr)] { resume(nullptr); });
}

void TcpLink::lose(const std::string& why) {
  if (ended()) return;
  lost_ = why;
  close();
}

void TcpLink::revoke(std::exception_ptr error) {
  if (error_) return;
  error_ = error;
  close();
}

void TcpLink::close() {
  asio::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
  if (watchdog_) runtime_.cancel(*std::exchange(watchdog_, std::nullopt));
  for (auto& [channel, lane] : lanes_) {
    for (auto& posted : std::exchange(lane.posted, {})) posted->done.fail(failure("waiting for", posted->message));
    if (error_) lane.arrived.clear();
  }
  wake();
}

std::exception_ptr TcpLink::failure(const char* doing, const Message& message) const {
  if (error_) return error_;
  return std::make_exception_ptr(Error(ErrorKind::peer, text("rank ", rank_, ": lost rank ", peer_, " (", lost_,
                                                             ") while ", doing, " ", describe(message))));
}

std::exception_ptr TcpLink::mismatch(const Frame& frame, const Message& expected, std::uint64_t payload) const {
  const Message sent = frame.message();
  if (expected.operation == std::string_view(frame.operation.data()) && sent.type == expected.type &&
      sent.count == expected.count && frame.payload == payload) {
    return nullptr;
  }
  return std::make_exception_ptr(Error(
      ErrorKind::mismatch, text("rank ", rank_, " waits for ", describe(expected, payload), ", but rank ", peer_,
                                " sent ", describe(sent, frame.payload), ": the ranks do not run the same recipe")));
}

/// What a kept message costs of the credit: with its bookkeeping, so that empty messages are not for nothing.
std::uint64_t TcpLink::cost(const Frame& frame) { return frame.payload + sizeof(Arrived); }

/// One timer for all operations, set anew where it finds none that is overdue: cheaper than one each.
void TcpLink::watch() {
  if (watchdog_ || ended()) return;
  auto expired = [weak = weak_from_this()] {
    if (auto link = weak.lock()) link->expire();
  };
  Duration oldest = runtime_.now();
  for (const auto& [id, sending] : sending_) oldest = std::min(oldest, sending.since);
  for (const auto& [channel, lane] : lanes_) {
    if (!lane.posted.empty()) oldest = std::min(oldest, lane.posted.front()->since);
  }
  watchdog_ = runtime_.call_at(oldest + options_.timeout, expired);
}

void TcpLink::expire() {
  watchdog_.reset();
  if (ended()) return;
  const Duration limit = runtime_.now() - options_.timeout;
  auto give_up = [this](const char* doing, const Sending& overdue) {
    revoke(std::make_exception_ptr(
        Error(ErrorKind::peer, text("rank ", rank_, ": gave up on rank ", peer_, " after ", seconds(options_.timeout),
                                    " s of ", doing, " ", describe(overdue.message)))));
  };
  bool busy = false;
  for (const auto& [id, sending] : sending_) {
    if (sending.since <= limit) return give_up("sending", sending);
    busy = true;
  }
  for (const auto& [channel, lane] : lanes_) {
    if (lane.posted.empty()) continue;
    const Posted& first = *lane.posted.front();
    if (first.since <= limit) return give_up("waiting for", {first.message, first.since});
    busy = true;
  }
  if (busy) watch();
}

}  // namespace ripieno
