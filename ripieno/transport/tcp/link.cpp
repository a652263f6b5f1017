#include "ripieno/transport/tcp/link.h"

#include <algorithm>
#include <array>
#include <asio/detached.hpp>
#include <asio/redirect_error.hpp>
#include <cstring>
#include <limits>

#include "ripieno/transport/tcp/keep_alive.h"

namespace ripieno::transport {
namespace {

constexpr std::size_t most_gathered = 64;  // the most buffers that Asio passes to the kernel
constexpr std::size_t most_written =
    256 << 10;  // at once: a checksum's bytes stay in the cache until the kernel copies them

constexpr auto between_looks = std::chrono::milliseconds(100);
constexpr int quiet_looks = 5;  // without a byte, of a peer whose process has ended

/// The bytes sent for a payload without data.
const std::array<std::byte, 64 << 10> zeros{};

/// Whether a write has failed because the connection is no more: then it can still be read to its end.
bool is_of_the_peer(const asio::error_code& error) {
  using namespace asio::error;
  return error == broken_pipe || error == connection_reset || error == connection_aborted || error == timed_out ||
         error == host_unreachable || error == network_unreachable;
}

using UnsentLowWater = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_NOTSENT_LOWAT>;

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
      const std::uint64_t left = first.size() - first.written;
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
  std::size_t room = most_written;
  for (const auto& outgoing : outgoing_) {
    if (!gather(*outgoing, room)) break;
  }
  const std::size_t written = socket_.write_some(gathered_, error);
  moved_out_ += written;
  return written;
}

/// Gathers what is unwritten of a message, up to `room` bytes of payload; returns whether that is all.
bool TcpLink::gather(Outgoing& outgoing, std::size_t& room) {
  if (gathered_.size() + 2 + most_written / zeros.size() > most_gathered) return false;
  std::uint64_t skip = outgoing.written;
  if (skip < frame_bytes) gathered_.push_back(asio::buffer(outgoing.header) + skip);
  skip -= std::min<std::uint64_t>(skip, frame_bytes);
  const std::uint64_t begin = std::min<std::uint64_t>(skip, outgoing.payload.size());
  const std::uint64_t end = begin + std::min<std::uint64_t>(outgoing.payload.size() - begin, room);
  sum_up(outgoing, end);
  room -= end - begin;
  if (outgoing.payload.data() && end > begin) gathered_.emplace_back(outgoing.payload.data() + begin, end - begin);
  for (std::uint64_t at = begin; at < end && !outgoing.payload.data(); at += zeros.size())
    gathered_.emplace_back(zeros.data(), std::min<std::uint64_t>(end - at, zeros.size()));
  if (end < outgoing.payload.size()) return false;
  gathered_.push_back(asio::buffer(outgoing.trailer) + (skip - begin));
  return true;
}

/// Sums the payload up to `end`, as far as it is not summed up yet.
void TcpLink::sum_up(Outgoing& outgoing, std::uint64_t end) {
  while (outgoing.summed < end) {
    const bool is_there = outgoing.payload.data();
    const std::uint64_t some = std::min<std::uint64_t>(end - outgoing.summed, is_there ? end : zeros.size());
    const std::byte* const from = is_there ? outgoing.payload.data() + outgoing.summed : zeros.data();
    outgoing.sum.add(ConstBytes(from, some));
    outgoing.summed += some;
  }
  const std::uint32_t sum = outgoing.sum.value();
  std::memcpy(outgoing.trailer.data(), &sum, sizeof sum);
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

void TcpLink::end_with_its_process() { asio::co_spawn(runtime_.context(), end_once_quiet(self()), asio::detached); }

/// The kernel goes on sending what the process has left to it, as fast as this rank reads; on one host that takes
/// microseconds.
Task<> TcpLink::end_once_quiet(std::shared_ptr<TcpLink> link) {
  std::uint64_t seen = 0;
  for (int quiet = 0; quiet < quiet_looks; quiet = link->moved_in_ == seen ? quiet + 1 : 0) {
    seen = link->moved_in_;
    co_await link->runtime_.sleep(between_looks);
    if (link->ended()) co_return;  // in most cases: the connection has ended with the process
    link->unwritable_ = "its process has ended";
    link->asked();
  }
  link->lose(link->unwritable_);
}

void TcpLink::asked() {
  if (paused_)
    asio::post(runtime_.context(), [resume = std::exchange(paused_, nullptr)]() mutable { resume(nullptr); });
}

/// Copies the unwritten rest of a payload, whose owner no longer waits.
void TcpLink::keep_rest(Outgoing& outgoing) {
  const std::uint64_t after_header = std::max<std::uint64_t>(outgoing.written, frame_bytes) - frame_bytes;
  const std::uint64_t of_payload = std::min<std::uint64_t>(after_header, outgoing.payload.size());
  outgoing.written -= of_payload;
  outgoing.summed -= of_payload;
  const ConstBytes all = outgoing.payload;
  if (!all.data()) {
    outgoing.payload = ConstBytes(static_cast<const std::byte*>(nullptr), all.size() - of_payload);
    return;
  }
  outgoing.own.assign(all.begin() + static_cast<std::ptrdiff_t>(of_payload), all.end());
  outgoing.payload = outgoing.own;
}

/// Copies what is unwritten of a message.
void TcpLink::append_rest(Outgoing& outgoing, std::vector<std::byte>& bytes) {
  sum_up(outgoing, outgoing.payload.size());
  std::uint64_t skip = outgoing.written;
  const auto append = [&](const std::byte* part, std::size_t size) {
    const std::size_t skipped = std::min<std::uint64_t>(skip, size);
    skip -= skipped;
    if (part) {
      bytes.insert(bytes.end(), part + skipped, part + size);
    } else {
      bytes.resize(bytes.size() + size - skipped);
    }
  };
  append(outgoing.header.data(), outgoing.header.size());
  append(outgoing.payload.data(), outgoing.payload.size());
  append(outgoing.trailer.data(), outgoing.trailer.size());
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
