#include "ripieno/rendezvous/door.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/write.hpp>
#include <cstring>
#include <span>

#include "ripieno/core/error.h"
#include "ripieno/rendezvous/address.h"
#include "ripieno/rendezvous/sockets.h"

namespace ripieno::rendezvous {
namespace {

using asio::ip::tcp;

constexpr auto patience = std::chrono::seconds(5), patience_with_others = std::chrono::seconds(1);
constexpr auto pause = std::chrono::milliseconds(50);
constexpr std::uint64_t stream_of_victims = 0x646F6F72;  // "door"

/// An IPv4 address as such, however the kernel writes it.
asio::ip::address plain(const asio::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
}

/// A quarter of the descriptors that this process may have: the others are the job's.
std::size_t most_undecided() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 128;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, 8, 128);
}

/// Reads on as long as it may be a greeting.
struct MayGreet {
  const Greeting* read;
  std::size_t operator()(const asio::error_code& error, std::size_t bytes) const {
    const std::size_t known = std::min(bytes, sizeof expected_magic);
    if (error || std::memcmp(&read->magic, &expected_magic, known) != 0) return 0;
    return sizeof(Greeting) - bytes;
  }
};

/// Tells a guest that it need not come again. No more than one attempt: the kernel has room for it.
void say_unproven(tcp::socket& socket) {
  AnswerHead head;
  head.status = unproven;
  asio::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(&head, sizeof head), ignored);
}

}  // namespace

void hang_up(tcp::socket& socket) {
  asio::error_code ignored;
  socket.close(ignored);
}

Door::Door(Runtime& runtime, tcp::endpoint where)
    : runtime_(runtime),
      acceptor_(runtime.context()),
      most_undecided_(most_undecided()),
      random_(runtime.random(stream_of_victims)) {
  asio::error_code error;
  open_socket(acceptor_, where.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  const bool is_all = where.protocol() == tcp::v6() && where.address().is_unspecified();
  if (!error && is_all) acceptor_.set_option(asio::ip::v6_only(false), error);  // IPv4 too
  if (!error) acceptor_.bind(where, error);
  if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
  if (!error) acceptor_.non_blocking(true, error);
  if (!error) endpoint_ = acceptor_.local_endpoint(error);
  if (error) {
    fail(ErrorKind::network, "cannot listen on ", to_string(where), ": ", error.message(),
         ". Choose another address, or port 0 for any that is free");
  }
}

Door::~Door() { close(); }

void Door::open(const Token& token, Guest guest) {
  token_ = token;
  guest_ = std::move(guest);
  if (!std::exchange(accepts_, true)) asio::co_spawn(runtime_.context(), accept(shared_from_this()), asio::detached);
}

void Door::close() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  for (const auto& [number, one] : undecided_) hang_up(*one.connection);
  undecided_.clear();
  guest_ = nullptr;
}

std::string Door::remark() const {
  const std::string unaccepted =
      last_refusal_ ? text("; some connections could not be accepted: ", last_refusal_.message()) : "";
  return unaccepted + strangers_.remark();
}

Task<> Door::accept(std::shared_ptr<Door> door) {
  while (door->acceptor_.is_open()) {
    Connection connection = std::make_shared<tcp::socket>(door->runtime_.context());
    tcp::endpoint from;
    Task<asio::error_code> accepting = accept_socket(&door->acceptor_, connection.get(), &from);
    const asio::error_code error = co_await std::move(accepting);
    if (!door->acceptor_.is_open()) co_return;
    if (!error) {
      const std::uint64_t number = door->arrivals_++;
      const Undecided one{connection, plain(from.address()), door->runtime_.now()};
      door->undecided_.emplace(number, one);
      door->keep_bounds();
      asio::co_spawn(door->runtime_.context(), greet(door, number, one), asio::detached);
      co_await asio::post(door->runtime_.context(), asio::use_awaitable);  // others may act while more come
    } else if (!door->undecided_.empty()) {  // mostly out of descriptors, of which they have some
      door->put_out(door->undecided_.begin());
    } else {
      door->last_refusal_ = error;
      co_await door->runtime_.sleep(pause);
    }
  }
}

/// Its greet() ends with an error, and counts it.
void Door::put_out(ByArrival::iterator one) {
  hang_up(*one->second.connection);
  undecided_.erase(one);
}

void Door::put_out_late() {
  while (!undecided_.empty()) {
    const Duration limit = undecided_.size() > 1 ? patience_with_others : patience;
    if (runtime_.now() - undecided_.begin()->second.since < limit) return;
    put_out(undecided_.begin());
  }
}

void Door::keep_bounds() {
  put_out_late();
  std::map<asio::ip::address, std::size_t> counts;
  for (const auto& [number, one] : undecided_) ++counts[one.from];
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto most = std::max_element(counts.begin(), counts.end(), fewer);
  if (undecided_.size() <= most_undecided_ && most->second <= most_undecided_ / 2) return;
  put_out(any_old_one_from(most->first, most->second));
}

/// Of the older half of the `count` ones from that address.
Door::ByArrival::iterator Door::any_old_one_from(const asio::ip::address& address, std::size_t count) {
  std::uint64_t before = random_.below((count + 1) / 2);
  return std::find_if(undecided_.begin(), undecided_.end(),
                      [&](const auto& one) { return one.second.from == address && before-- == 0; });
}

Task<> Door::greet(std::shared_ptr<Door> door, std::uint64_t number, Undecided one) {
  const auto late = [door] { door->put_out_late(); };
  const std::array timers{door->runtime_.call_at(one.since + patience_with_others, late),
                          door->runtime_.call_at(one.since + patience, late)};
  Challenge challenge;
  challenge.nonce = random_nonce();
  Greeting greeting;
  const asio::const_buffer out(&challenge, sizeof challenge);
  const asio::mutable_buffer in(&greeting, sizeof greeting);
  const MayGreet may_greet{&greeting};
  std::size_t said = 0;
  asio::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  co_await asio::async_write(*one.connection, out, token);
  if (!error) said = co_await asio::async_read(*one.connection, in, may_greet, token);
  for (const Runtime::Timer timer : timers) door->runtime_.cancel(timer);
  const bool was_put_out = door->undecided_.erase(number) == 0;
  const bool is_whole = !error && said == sizeof greeting;
  const bool is_proven = is_whole && greeting.proves(door->token_, challenge);
  const Guest guest = door->guest_;  // a copy: the call may close the door
  if (guest && is_proven && !was_put_out) {
    guest(one.connection, greeting, {challenge.nonce, greeting.nonce});
    co_return;
  }
  if (guest && !is_proven)
    door->strangers_.add(one.from, what_was_said(std::as_bytes(std::span(&greeting, 1)).first(said)));
  if (guest && is_whole && !is_proven) say_unproven(*one.connection);
  hang_up(*one.connection);
}

}  // namespace ripieno::rendezvous
