#include "ripieno/transport/tcp_link.h"

#include <algorithm>
#include <array>
#include <asio/detached.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/write.hpp>
#include <limits>

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

TcpLink::TcpLink(Runtime& runtime, int rank, int peer, asio::ip::tcp::socket socket, TcpOptions options,
                 std::string why)
    : PeerLink(runtime, rank, peer, options),
      why_(std::move(why)),
      socket_(std::move(socket)),
      writing_(runtime),
      scratch_(new std::byte[scratch_bytes]) {
  asio::error_code error;
  socket_.set_option(asio::ip::tcp::no_delay(true), error);
  if (error) lose(error.message());
}

void TcpLink::start() { asio::co_spawn(runtime_.context(), pump(self()), asio::detached); }

Task<> TcpLink::send(std::shared_ptr<TcpLink> link, Message message, ConstBytes payload) {
  const std::uint64_t id = link->begin_send(message);
  Mutex::Lock lock = co_await link->writing_.lock();
  if (!link->ended()) {
    const std::uint64_t sequence = link->lanes_[message.channel].next_sent++;
    const FrameBytes header = encode(make_frame(message, link->options_.epoch, sequence, payload.size()));
    const std::vector<asio::const_buffer> buffers = gather(header, payload);
    asio::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await asio::async_write(link->socket_, buffers, all_at_once, token);
    link->end_send(id);
    if (!error && !link->error_) co_return;
    // The pump learns by itself that the peer is gone, after it has read what the peer still had to say.
    if (!link->ended())
      fail(ErrorKind::peer, "rank ", link->rank_, ": lost rank ", link->peer_, " (", error.message(),
           ") while sending ", describe(message));
  }
  link->end_send(id);
  std::rethrow_exception(link->failure("sending", message));
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
  Lane* lane = &admit(frame);
  const std::uint64_t cost = frame.payload + sizeof(Arrived);
  while (!ended() && lane->posted.empty() && unasked_ + cost > options_.unasked_bytes) co_await changed();
  if (ended()) co_return false;
  if (lane->posted.empty()) {
    if (!co_await keep(frame, lane)) co_return false;
  } else {
    const std::shared_ptr<Posted> posted = lane->posted.front();
    if (!co_await fill(frame, posted)) co_return false;
    serve(*lane);
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
  Arrived arrived{frame, std::make_unique_for_overwrite<std::byte[]>(frame.payload)};
  unasked_ += arrived.cost();
  const asio::mutable_buffer buffer(arrived.payload.get(), frame.payload);
  if (!co_await read(buffer)) co_return false;
  if (lane->posted.empty()) {
    lane->arrived.push_back(std::move(arrived));
    co_return true;
  }
  // Asked for meanwhile.
  unasked_ -= arrived.cost();
  const std::shared_ptr<Posted> posted = lane->posted.front();
  if (auto wrong = mismatch(frame, posted->message, posted->sink.payload())) std::rethrow_exception(wrong);
  give(arrived, posted->sink);
  serve(*lane);
  co_return true;
}

Task<> TcpLink::changed() {
  auto start = [this](Resume resume) { paused_ = std::move(resume); };
  return suspend(start);
}

void TcpLink::asked() {
  if (paused_) asio::post(runtime_.context(), [resume = std::exchange(paused_, nullptr)] { resume(nullptr); });
}

void TcpLink::hang_up() {
  asio::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

}  // namespace ripieno
