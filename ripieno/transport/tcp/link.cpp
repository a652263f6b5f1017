#include "ripieno/transport/tcp/link.h"

#include <algorithm>
#include <array>
#include <asio/detached.hpp>
#include <asio/redirect_error.hpp>
#include <limits>

#include "ripieno/transport/tcp/keep_alive.h"

namespace ripieno::transport {
namespace {

constexpr std::size_t scratch_bytes = 256 << 10;  // a chunk stays in the L2 cache until it is added
constexpr std::size_t stage_bytes = 16 << 10;
constexpr std::size_t most_wake_bytes = 256 << 10;
constexpr std::size_t most_gathered = 64;  // the most buffers that Asio passes to the kernel

/// The bytes sent for a payload without data.
const std::array<std::byte, 64 << 10> zeros{};

/// Whether a write has failed because the connection is no more: then it can still be read to its end.
bool is_of_the_peer(const asio::error_code& error) {
  using namespace asio::error;
  return error == broken_pipe || error == connection_reset || error == connection_aborted || error == timed_out ||
         error == host_unreachable || error == network_unreachable;
}

using UnsentLowWater = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_NOTSENT_LOWAT>;
using LowWater = asio::detail::socket_option::integer<SOL_SOCKET, SO_RCVLOWAT>;

}  // namespace

TcpLink::TcpLink(Runtime& runtime, int rank, int peer, asio::ip::tcp::socket socket, TcpOptions options,
                 std::shared_ptr<Aborts> aborts, std::string why)
    : PeerLink(runtime, rank, peer, options.link, std::move(aborts)),
      why_(std::move(why)),
      socket_(std::move(socket)),
      scratch_(new std::byte[scratch_bytes]),
      stage_(new std::byte[stage_bytes]) {
  asio::error_code error;
  socket_.set_option(asio::ip::tcp::no_delay(true), error);
  if (!error) socket_.set_option(UnsentLowWater(options.unsent_bytes), error);
  if (!error) end_with_its_host(socket_, error);
  if (!error) socket_.non_blocking(true, error);
  if (error) lose(error.message());
}

void TcpLink::start() { asio::co_spawn(runtime_.context(), pump(self()), asio::detached); }

Task<> TcpLink::send(std::shared_ptr<TcpLink> link, Message message, ConstBytes payload) {
  link->throw_if_aborted(message.channel.scope);
  if (link->ended()) std::rethrow_exception(link->failure("sending", message));
  const std::uint32_t sequence = link->lanes_[message.channel].next_sent++;
  const Frame frame = make_frame(message, link->options_.epoch, sequence, payload.size());
  const auto outgoing = std::make_shared<Outgoing>(link->runtime_, frame, payload, message.urgency);
  link->queue(outgoing);
  if (!link->writing_rest_) link->write();
  if (outgoing->sent) co_return;
  const Watched watched(link.get(), message);
  try {
    co_await outgoing->done.wait();
  } catch (...) {
    link->throw_if_aborted(message.channel.scope);
    std::rethrow_exception(link->failure("sending", message));
  }
}

/// Queues a message behind equally urgent ones and behind those that have begun.
void TcpLink::queue(std::shared_ptr<Outgoing> outgoing) {
  auto at = outgoing_.end();
  while (at != outgoing_.begin()) {
    const Outgoing& before = **std::prev(at);
    if (before.urgency >= outgoing->urgency || before.written > 0) break;
    --at;
  }
  outgoing_.insert(at, std::move(outgoing));
}

void TcpLink::tell(const Abort& abort) {
  if (ended() || !unwritable_.empty()) return;
  const auto first = std::numeric_limits<int>::max();
  const auto outgoing = std::make_shared<Outgoing>(runtime_, make_frame(abort, options_.epoch), ConstBytes(), first);
  const auto reason = std::as_bytes(std::span(abort.reason));
  outgoing->own.assign(reason.begin(), reason.end());
  outgoing->payload = outgoing->own;
  outgoing->tells = true;
  queue(outgoing);
  if (!writing_rest_) write();
}

bool TcpLink::is_telling() const {
  if (farewell_) return !farewell_->is_over();
  return std::any_of(outgoing_.begin(), outgoing_.end(), [](const auto& one) { return one->tells; });
}

/// Writes as much as the connection takes now, and the rest when it takes more.
void TcpLink::write() {
  if (!unwritable_.empty()) return;
  asio::error_code error;
  while (!outgoing_.empty() && !error) {
    std::uint64_t written = write_some(error);
    while (!outgoing_.empty()) {
      Outgoing& first = *outgoing_.front();
      const std::uint64_t left = first.header.size() + first.payload.size() - first.written;
      if (written < left) {
        first.written += written;
        break;
      }
      written -= left;
      first.sent = true;
      first.done.set();
      outgoing_.pop_front();
    }
  }
  if (!error) return;
  if (error != asio::error::would_block) {
    unwritable_ = error.message();
    if (!is_of_the_peer(error)) return lose(unwritable_);
    asked();  // the pump ends the link once it has read the peer's last messages, among which may be why it has gone
  } else if (!writing_rest_) {
    writing_rest_ = true;
    asio::co_spawn(runtime_.context(), write_rest(self()), asio::detached);
  }
}

/// Writes as many messages as fit into one system call.
std::size_t TcpLink::write_some(asio::error_code& error) {
  gathered_.clear();
  for (const auto& outgoing : outgoing_) {
    if (gathered_.size() + 2 > most_gathered) break;
    std::uint64_t skip = outgoing->written;
    if (skip < frame_bytes) gathered_.push_back(asio::buffer(outgoing->header) + skip);
    skip -= std::min<std::uint64_t>(skip, frame_bytes);
    std::uint64_t left = outgoing->payload.size() - skip;
    if (outgoing->payload.data()) {
      if (left > 0) gathered_.emplace_back(outgoing->payload.data() + skip, left);
      continue;
    }
    for (; left > 0 && gathered_.size() < most_gathered; left -= std::min(left, zeros.size())) {
      gathered_.emplace_back(zeros.data(), std::min(left, zeros.size()));
    }
    if (left > 0) break;
  }
  const std::size_t written = socket_.write_some(gathered_, error);
  moved_out_ += written;
  return written;
}

Task<> TcpLink::write_rest(std::shared_ptr<TcpLink> link) {
  while (!link->ended() && link->unwritable_.empty() && !link->outgoing_.empty()) {
    asio::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await link->socket_.async_wait(asio::ip::tcp::socket::wait_write, token);
    if (!link->ended()) link->write();
  }
  link->writing_rest_ = false;
}

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
  if (!decoded) {
    fail(ErrorKind::mismatch, "rank ", rank_, ": rank ", peer_,
         " sent bytes that are not a message's header. Do all ranks ", "run the same version?");
  }
  const Frame frame = *decoded;
  check_epoch(frame);
  if (frame.kind == FrameKind::abort) co_return co_await hear(frame);
  if (aborted(frame.channel.scope)) co_return co_await skip(frame.payload);

  arriving_ = frame.channel.scope;
  Lane* lane = &admit(frame);  // valid until the message is dropped
  const std::uint64_t cost = frame.payload + sizeof(Arrived);
  const auto has_room = [&] { return !unwritable_.empty() || unasked_ + cost <= options_.unasked_bytes; };
  while (!stops() && lane->posted.empty() && !has_room()) co_await changed();
  std::uint64_t left = frame.payload;
  if (!stops()) {
    Task<std::uint64_t> reading = lane->posted.empty() ? keep(frame, lane) : fill(frame, lane);
    left -= co_await std::move(reading);
  }
  arriving_.reset();
  dropped_ = false;
  if (ended()) co_return false;
  if (left > 0) co_return co_await skip(left);
  co_return true;
}

Task<bool> TcpLink::hear(Frame frame) {
  std::string reason(frame.payload, ' ');
  const Bytes into = std::as_writable_bytes(std::span(reason));
  co_await read(into);
  if (ended()) co_return false;
  aborts_->hear(frame.channel.scope, peer_, static_cast<int>(frame.channel.id), reason);
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
    ahead_ = ahead_.subspan(ready);
    into = into.subspan(ready);
    if (into.empty()) co_return wanted;
    if (into.size() >= stage_bytes) {
      const std::size_t got = co_await read_some(into, into.size());
      into = into.subspan(got);
    } else {
      const Bytes stage(stage_.get(), stage_bytes);
      const std::size_t got = co_await read_some(stage, into.size());
      ahead_ = stage.first(got);
    }
    if (stops()) co_return wanted - into.size();
  }
}

/// Reads the bytes that are there, perhaps fewer than `wanted`; 0 once the connection has ended.
Task<std::size_t> TcpLink::read_some(Bytes into, std::size_t wanted) {
  wake_for(wanted);
  asio::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  const asio::mutable_buffer buffer(into.data(), into.size());
  const std::size_t got = co_await socket_.async_read_some(buffer, token);
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
  if (!stops()) serve(*lane);
  co_return got;
}

/// Reads an unexpected payload that is within the credit; returns how much, as read() does.
Task<std::uint64_t> TcpLink::keep(Frame frame, Lane* lane) {
  Arrived arrived{frame, scratch(frame.payload)};
  unasked_ += arrived.cost();
  const Bytes payload(arrived.payload.get(), frame.payload);
  const std::uint64_t got = co_await read(payload);
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

void TcpLink::asked() {
  if (paused_)
    asio::post(runtime_.context(), [resume = std::exchange(paused_, nullptr)]() mutable { resume(nullptr); });
}

/// Copies the unwritten rest of a payload, whose owner no longer waits.
void TcpLink::keep_rest(Outgoing& outgoing) {
  const std::uint64_t of_payload = std::max<std::uint64_t>(outgoing.written, frame_bytes) - frame_bytes;
  outgoing.written -= of_payload;
  const ConstBytes all = outgoing.payload;
  if (!all.data()) {
    outgoing.payload = ConstBytes(static_cast<const std::byte*>(nullptr), all.size() - of_payload);
    return;
  }
  outgoing.own.assign(all.begin() + static_cast<std::ptrdiff_t>(of_payload), all.end());
  outgoing.payload = outgoing.own;
}

/// Copies what is unwritten of a message.
void TcpLink::append_rest(const Outgoing& outgoing, std::vector<std::byte>& bytes) {
  const auto of_header = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(outgoing.written, frame_bytes));
  bytes.insert(bytes.end(), outgoing.header.begin() + of_header, outgoing.header.end());
  const std::uint64_t of_payload = outgoing.written - static_cast<std::uint64_t>(of_header);
  const ConstBytes all = outgoing.payload;
  if (all.data()) {
    bytes.insert(bytes.end(), all.begin() + static_cast<std::ptrdiff_t>(of_payload), all.end());
  } else {
    bytes.resize(bytes.size() + all.size() - of_payload);
  }
}

void TcpLink::drop(const Abort& abort) {
  for (auto at = outgoing_.begin(); at != outgoing_.end();) {
    Outgoing& one = **at;
    if (one.scope != abort.scope) {
      ++at;
      continue;
    }
    one.done.fail(abort.error);
    if (one.written == 0) {
      at = outgoing_.erase(at);
      continue;
    }
    keep_rest(one);
    ++at;
  }
  if (arriving_ == abort.scope) {
    dropped_ = true;
    asio::error_code ignored;
    socket_.cancel(ignored);  // the pump's read; a waiting write checks again
  }
  asked();
}

void TcpLink::hang_up() {
  asio::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
  for (auto& outgoing : std::exchange(outgoing_, {})) {
    outgoing->done.fail(std::make_exception_ptr(asio::system_error(asio::error::operation_aborted)));
  }
}

void TcpLink::say_farewell() {
  if (!lost_.empty() || !unwritable_.empty() || !is_telling()) return hang_up();
  std::vector<std::byte> last;
  for (const auto& outgoing : outgoing_) {
    if (outgoing->written > 0 || outgoing->tells) append_rest(*outgoing, last);
  }
  farewell_ = Farewell::say(runtime_, std::move(socket_), std::move(last));
  hang_up();
}

}  // namespace ripieno::transport
