// The receiving part of TcpLink.
#include <algorithm>
#include <array>
#include <asio/redirect_error.hpp>
#include <iomanip>

#include "ripieno/transport/tcp/link.h"

namespace ripieno::transport {
namespace {

constexpr std::size_t most_wake_bytes = 256 << 10;

using LowWater = asio::detail::socket_option::integer<SOL_SOCKET, SO_RCVLOWAT>;

}  // namespace

Task<> TcpLink::pump(std::shared_ptr<TcpLink> link) {
  try {
    bool more = true;
    while (more) more = co_await link->pump_one();
  } catch (...) {
    link->give_up(link->arriving_.value_or(0), std::current_exception());
  }
}

/// Reads one message or abort. False: the connection has ended.
Task<bool> TcpLink::pump_one() {
  FrameBytes bytes;
  const Bytes header(bytes);
  co_await read(header);
  if (ended()) co_return false;
  const std::optional<Frame> decoded = decode(bytes);
  if (!decoded) throw not_a_header(rank_, peer_, bytes);
  const Frame frame = *decoded;
  check_epoch(frame);
  if (frame.kind == FrameKind::abort) co_return co_await hear(frame);
  if (aborted(frame.channel.scope)) co_return co_await skip(frame.payload + checksum_bytes);

  arriving_ = frame.channel.scope;
  Lane* lane = &admit(frame);  // valid until the message is dropped
  const std::uint64_t cost = frame.payload + sizeof(Arrived);
  const auto has_room = [&] { return !unwritable_.empty() || unasked_ + cost <= options_.unasked_bytes; };
  while (!stops() && lane->posted.empty() && !has_room()) co_await changed();
  std::uint64_t left = frame.payload + checksum_bytes;
  if (!stops()) {
    sum_.emplace();
    Task<std::uint64_t> reading = lane->posted.empty() ? keep(frame, lane) : fill(frame, lane);
    left -= co_await std::move(reading);
  }
  arriving_.reset();
  sum_.reset();
  dropped_ = false;
  if (ended()) co_return false;
  if (left > 0) co_return co_await skip(left);
  co_return true;
}

Task<bool> TcpLink::hear(Frame frame) {
  std::string reason(frame.payload, ' ');
  const Bytes into = std::as_writable_bytes(std::span(reason));
  sum_.emplace();
  co_await read(into);
  if (!ended()) co_await check(frame);
  if (ended()) co_return false;
  aborts_->hear(peer_, abort_in(frame, std::move(reason)));
  co_return true;
}

/// Reads and discards bytes. False: the connection has ended.
Task<bool> TcpLink::skip(std::uint64_t bytes) {
  while (bytes > 0 && !ended()) {
    const Bytes part(scratch_.get(), std::min<std::uint64_t>(bytes, scratch_bytes));
    bytes -= co_await read(part);
  }
  co_return !ended();
}

/// Fills `into` and returns how many bytes. Fewer than all only if stops() is true; `into` may then be gone.
Task<std::uint64_t> TcpLink::read(Bytes into) {
  const std::size_t wanted = into.size();
  for (;;) {
    const std::size_t ready = std::min(ahead_.size(), into.size());
    std::copy_n(ahead_.begin(), ready, into.begin());
    if (sum_) sum_->add(into.first(ready));
    ahead_ = ahead_.subspan(ready);
    into = into.subspan(ready);
    if (into.empty()) co_return wanted;
    const Bytes straight = into.size() >= stage_bytes ? into : Bytes();
    const std::size_t got = co_await read_some(straight, into.size());
    const std::size_t filled = std::min(got, straight.size());
    if (sum_ && !stops()) sum_->add(straight.first(filled));
    into = into.subspan(filled);
    ahead_ = ConstBytes(stage_.get(), got - filled);
    if (stops()) co_return wanted - into.size();
  }
}

/// Reads the bytes that are there, perhaps fewer than `wanted`: those that `into` has no room for to the stage. 0 once
/// the connection has ended.
Task<std::size_t> TcpLink::read_some(Bytes into, std::size_t wanted) {
  wake_for(wanted + (sum_ ? checksum_bytes : 0));
  asio::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  const std::array<asio::mutable_buffer, 2> buffers{asio::buffer(into.data(), into.size()),
                                                    asio::buffer(stage_.get(), stage_bytes)};
  const std::size_t got = co_await socket_.async_read_some(buffers, token);
  moved_in_ += got;
  if (error == asio::error::operation_aborted) co_return 0;  // drop() did it, or the connection has ended
  if (!error) co_return got;
  const std::string why = error == asio::error::eof ? "connection closed" : error.message();
  lose(unwritable_.empty() ? why : unwritable_);
  co_return got;
}

/// Makes the kernel wake this thread once `bytes` have arrived, or a quarter of what its buffer holds, so that the
/// sender need not wait.
void TcpLink::wake_for(std::size_t bytes) {
  asio::error_code ignored;  // on an error it only wakes more often
  if (bytes < stage_bytes) {
    bytes = 1;
  } else {
    bytes = std::min(bytes, most_wake_bytes);
    if (bytes > most_wake_) {  // the buffer grows with the traffic
      asio::socket_base::receive_buffer_size room;
      socket_.get_option(room, ignored);
      most_wake_ = std::max<std::size_t>(static_cast<std::size_t>(room.value()) / 4, 1);
    }
    bytes = std::min(bytes, most_wake_);
  }
  if (bytes == wakes_for_) return;
  socket_.set_option(LowWater(static_cast<int>(bytes)), ignored);
  wakes_for_ = bytes;
}

/// Reads the checksum that follows a payload; returns how much, as read() does. Error(mismatch): the payload is not
/// what was sent.
Task<std::uint64_t> TcpLink::check(Frame frame) {
  const std::uint32_t found = sum_->value();
  sum_.reset();
  std::uint32_t sent = 0;
  const Bytes into = std::as_writable_bytes(std::span(&sent, 1));
  const std::uint64_t got = co_await read(into);
  if (got == checksum_bytes && sent != found) {
    fail(ErrorKind::mismatch, "rank ", rank_, ": what came from rank ", peer_, " as ",
         describe(frame.message(), frame.payload), " has the checksum ", std::hex, std::setfill('0'), std::setw(8),
         found, ", and rank ", std::dec, peer_, " sent one with ", std::hex, std::setw(8), sent,
         ": memory, a network card or a switch has changed it; test the two hosts and what connects them");
  }
  co_return got;
}

/// Reads a payload into its posted receive; returns how much, as read() does.
Task<std::uint64_t> TcpLink::fill(Frame frame, Lane* lane) {
  const std::shared_ptr<Posted> posted = lane->posted.front();
  if (auto wrong = mismatch(frame, posted->message, posted->sink.payload())) std::rethrow_exception(wrong);
  std::uint64_t got = 0;
  if (const std::optional<Bytes> straight = posted->sink.straight()) {
    got = co_await read(*straight);
  } else {
    while (got < frame.payload && !stops()) {
      const Bytes part(scratch_.get(), std::min<std::uint64_t>(frame.payload - got, scratch_bytes));
      const std::uint64_t read_now = co_await read(part);
      if (!stops()) posted->sink.take(got, part);
      got += read_now;
    }
  }
  if (!stops()) got += co_await check(frame);
  if (!stops()) serve(*lane);
  co_return got;
}

/// Reads an unexpected payload that is within the credit; returns how much, as read() does.
Task<std::uint64_t> TcpLink::keep(Frame frame, Lane* lane) {
  Arrived arrived{frame, scratch(frame.payload)};
  unasked_ += arrived.cost();
  const Bytes payload(arrived.payload.get(), frame.payload);
  std::uint64_t got = co_await read(payload);
  if (!stops()) got += co_await check(frame);
  if (!stops() && lane->posted.empty()) {
    lane->arrived.push_back(std::move(arrived));
    co_return got;
  }
  unasked_ -= arrived.cost();
  if (stops()) co_return got;
  // Its receive was posted meanwhile.
  const std::shared_ptr<Posted> posted = lane->posted.front();
  if (auto wrong = mismatch(frame, posted->message, posted->sink.payload())) std::rethrow_exception(wrong);
  give(arrived, posted->sink);
  serve(*lane);
  co_return got;
}

Task<> TcpLink::changed() {
  auto start = [this](Resume resume) { paused_ = std::move(resume); };
  return suspend(start);
}

}  // namespace ripieno::transport
