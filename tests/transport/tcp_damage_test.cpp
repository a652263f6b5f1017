// A byte that changes between two ranks, where TCP's own checksum does not see it: both ends name what was damaged.
#include <gtest/gtest.h>

#include <asio/read.hpp>
#include <asio/write.hpp>
#include <optional>

#include "tests/transport/ranks.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;

/// Carries the bytes of one connection to another until that ends, and changes a bit of byte number `at`.
class Wire {
 public:
  Wire(int from, int to, std::optional<std::uint64_t> at)
      : from_(context_, tcp::v4(), from), to_(context_, tcp::v4(), to), at_(at), thread_([this] { carry(); }) {}
  ~Wire() { thread_.join(); }
  Wire(const Wire&) = delete;

 private:
  void carry() {
    std::vector<std::byte> some(10'000);
    asio::error_code error;
    std::uint64_t carried = 0;
    while (!error) {
      const std::size_t got = from_.read_some(asio::buffer(some), error);
      if (at_ && *at_ >= carried && *at_ < carried + got) some[*at_ - carried] ^= std::byte{0x10};
      carried += got;
      asio::error_code gone;  // the other side; what else comes is dropped
      asio::write(to_, asio::buffer(some.data(), got), gone);
    }
    to_.shutdown(tcp::socket::shutdown_send, error);
  }

  asio::io_context context_;
  tcp::socket from_, to_;
  const std::optional<std::uint64_t> at_;
  std::thread thread_;
};

struct Exchanged {
  Outcome sender, receiver;
};

constexpr std::uint64_t header = frame_bytes, trailer = checksum_bytes;

Task<> send(Endpoint* e, std::size_t numbers) {
  const std::vector<float> out(numbers, 1);
  co_await e->send(0, message(numbers), const_bytes(out));
  co_await e->send(0, message(1), ConstBytes(const_bytes(out)).first(4));
  co_await e->receive(0, message(0, 1), Bytes());
}

enum class Into : std::uint8_t { its_place, a_sum, credit };

/// Straight to its place, added to numbers that are there, or kept for a receive that comes later.
Task<> receive(Endpoint* e, std::size_t numbers, Into how) {
  std::vector<float> in(numbers, 1);
  if (how == Into::credit) co_await e->runtime().sleep(std::chrono::milliseconds(5));
  if (how == Into::a_sum) {
    co_await e->receive(1, message(numbers), NumberSpan(in), numeric::Reduce::add);
  } else {
    co_await e->receive(1, message(numbers), bytes(in));
  }
  EXPECT_EQ(in, std::vector<float>(numbers, how == Into::a_sum ? 2 : 1));
  float last = 0;
  co_await e->receive(1, message(1), std::as_writable_bytes(std::span(&last, 1)));
  co_await e->send(1, message(0, 1), ConstBytes());
}

Outcome outcome_of(int rank, int fd, const Body& body) {
  auto runtime = real_runtime(rank);
  std::vector<int> fds(2, -1);
  fds[1 - rank] = fd;
  auto endpoint = tcp_endpoint(*runtime, rank, sockets_of(*runtime, fds), {});
  runtime->spawn(text("rank ", rank), body(endpoint.get()));
  try {
    runtime->run();
    return {};
  } catch (const Error& error) {
    return {error.what(), error.kind()};
  }
}

/// Rank 1 sends to rank 0 through two connections with a wire between them.
Exchanged exchange(std::size_t numbers, Into how, std::optional<std::uint64_t> damaged) {
  const auto near = connect_all(2), far = connect_all(2);  // rank 1's connection, and rank 0's
  const Wire there(near[0][1], far[1][0], damaged), back(::dup(far[1][0]), ::dup(near[0][1]), std::nullopt);
  Exchanged exchanged;
  std::thread sender(
      [&] { exchanged.sender = outcome_of(1, near[1][0], [&](Endpoint* e) { return send(e, numbers); }); });
  exchanged.receiver = outcome_of(0, far[0][1], [&](Endpoint* e) { return receive(e, numbers, how); });
  sender.join();
  return exchanged;
}

class TcpDamage : public ::testing::TestWithParam<Into> {};

TEST_P(TcpDamage, NoDamageIsNoError) {
  for (const std::size_t numbers : {std::size_t{0}, std::size_t{10}, std::size_t{300'000}}) {
    const Exchanged well = exchange(numbers, GetParam(), std::nullopt);
    EXPECT_EQ(well.receiver.error, "");
    EXPECT_EQ(well.sender.error, "");
  }
}

TEST_P(TcpDamage, OfAHeaderIsNamed) {
  for (std::uint64_t byte = 0; byte < header; byte += byte < 8 ? 1 : 7) {
    SCOPED_TRACE(byte);
    const Exchanged damaged = exchange(10, GetParam(), byte);
    EXPECT_EQ(damaged.receiver.kind, ErrorKind::mismatch);
    EXPECT_NE(
        damaged.receiver.error.find("rank 0: rank 1 sent bytes that are not a message's header (their checksum is "),
        std::string::npos)
        << damaged.receiver.error;
    EXPECT_NE(damaged.sender.error.find("rank 0 gave up: rank 1 sent bytes"), std::string::npos)
        << damaged.sender.error;
  }
}

TEST_P(TcpDamage, OfAPayloadOrItsChecksumIsNamed) {
  for (const std::uint64_t numbers : {10, 300'000}) {
    const std::uint64_t size = 4 * numbers;
    for (const std::uint64_t byte :
         {std::uint64_t{0}, std::uint64_t{3}, size / 2, size - 1, size, size + trailer - 1}) {
      SCOPED_TRACE(text(numbers, " numbers, byte ", byte));
      const Exchanged damaged = exchange(numbers, GetParam(), header + byte);
      EXPECT_EQ(damaged.receiver.kind, ErrorKind::mismatch);
      const std::string what = text("what came from rank 1 as test of ", numbers, " fp32 on exchange channel 0 (", size,
                                    " bytes) has the checksum ");
      EXPECT_EQ(damaged.receiver.error.find("rank 0: " + what), 0) << damaged.receiver.error;
      EXPECT_NE(damaged.receiver.error.find("test the two hosts and what connects them"), std::string::npos);
      EXPECT_NE(damaged.sender.error.find("rank 0 gave up: " + what), std::string::npos) << damaged.sender.error;
    }
  }
}

std::string name_of(const ::testing::TestParamInfo<Into>& info) {
  constexpr const char* names[]{"ToItsPlace", "Added", "Kept"};
  return names[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(How, TcpDamage, ::testing::Values(Into::its_place, Into::a_sum, Into::credit), name_of);

}  // namespace
}  // namespace ripieno::transport
