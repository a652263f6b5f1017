// What a connection may bring besides messages: garbage, forged headers, and the end of the endpoint itself.
#include <gtest/gtest.h>

#include <asio/write.hpp>

#include "ripieno/transport/frame.h"
#include "ripieno/transport/tcp/endpoint.h"
#include "tests/transport/ranks.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;

/// Rank 0, whose one peer sends `raw`; returns how its receive ends.
Outcome receive_from(const std::vector<std::byte>& raw, LinkOptions options = {}) {
  const auto fds = connect_all(2);
  auto runtime = real_runtime(0);
  tcp::socket stranger(runtime->context(), tcp::v4(), fds[1][0]);
  asio::write(stranger, asio::buffer(raw));
  auto endpoint = tcp_endpoint(*runtime, 0, sockets_of(*runtime, fds[0]), {options});
  auto body = [](Endpoint* e) -> Task<> {
    std::vector<float> in(10);
    co_await e->receive(1, message(10), bytes(in));
  };
  runtime->spawn("rank 0", body(endpoint.get()));
  try {
    runtime->run();
  } catch (const Error& e) {
    return {e.what(), e.kind()};
  }
  return {};
}

TEST(TcpStranger, GarbageIsANamedError) {
  std::vector<std::byte> garbage(1000, std::byte{'G'});
  const Outcome outcome = receive_from(garbage);
  EXPECT_EQ(outcome.kind, ErrorKind::mismatch);
  EXPECT_NE(outcome.error.find("rank 0: rank 1 sent bytes that are not a message's header"), std::string::npos)
      << outcome.error;
}

TEST(TcpStranger, HeadersAreCheckedBeforeAnythingIsAllocated) {
  const Frame good = make_frame(message(10), 0, 0, 40);
  auto raw = [](const Frame& frame) {
    const FrameBytes bytes = encode(frame);
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  Frame huge = good, late = good, other_epoch = good;
  huge.payload = ~0ull >> 1;
  late.sequence = 5;
  other_epoch.epoch = 7;
  EXPECT_EQ(receive_from(raw(huge)).kind, ErrorKind::mismatch);
  EXPECT_NE(receive_from(raw(late)).error.find("sent message 5"), std::string::npos);
  EXPECT_NE(receive_from(raw(other_epoch)).error.find("epoch 7"), std::string::npos);
  // Every byte that is flipped before the header is sealed leaves either another valid header or none; decode() never
  // lets through what encode() would not have written.
  const FrameBytes bytes = encode(good);
  for (std::size_t i = 4; i < bytes.size(); ++i) {
    FrameBytes flipped = bytes;
    flipped[i] ^= std::byte{0xFF};
    EXPECT_FALSE(decode(flipped)) << "byte " << i;
    seal(flipped);
    if (const auto frame = decode(flipped)) {
      EXPECT_EQ(encode(*frame), flipped) << "byte " << i;
    }
  }
}

TEST(TcpStranger, WhatTellsOfAnAbortIsChecked) {
  auto raw = [](const Abort& abort, std::uint32_t epoch, std::uint64_t payload, std::uint64_t loss = 0) {
    Frame frame = make_frame(abort, epoch);
    frame.payload = payload;
    frame.count = loss;
    const FrameBytes header = encode(frame);
    std::vector<std::byte> bytes(header.begin(), header.end());
    const auto reason = std::as_bytes(std::span(abort.reason));
    bytes.insert(bytes.end(), reason.begin(), reason.end());
    Checksum checksum;
    checksum.add(reason);
    const std::uint32_t value = checksum.value();
    const auto trailer = std::as_bytes(std::span(&value, 1));
    bytes.insert(bytes.end(), trailer.begin(), trailer.end());
    return bytes;
  };
  const Abort abort{0, nullptr, 3, "a \x1b[31mred\nreason", {}};
  EXPECT_EQ(receive_from(raw(abort, 0, abort.reason.size())).error, "rank 0: rank 3 gave up: a  [31mred reason");
  EXPECT_EQ(receive_from(raw(abort, 0, most_reason + 1)).kind, ErrorKind::mismatch);
  for (const std::uint64_t loss : {std::uint64_t{5}, std::uint64_t{5} << 32, ~std::uint64_t{0}}) {  // nobody is lost so
    EXPECT_EQ(receive_from(raw(abort, 0, abort.reason.size(), loss)).kind, ErrorKind::mismatch) << loss;
  }
  EXPECT_NE(receive_from(raw(abort, 7, abort.reason.size())).error.find("rank 0 is in epoch 0, but rank 1 sent"),
            std::string::npos);
}

TEST(TcpStranger, AnEndpointMayGoWhileOthersWaitOnIt) {
  const auto fds = connect_all(2);
  auto runtime = real_runtime(0);
  tcp::socket silent(runtime->context(), tcp::v4(), fds[1][0]);
  auto endpoint = tcp_endpoint(*runtime, 0, sockets_of(*runtime, fds[0]), {});
  auto body = [](Endpoint* e) -> Task<> {
    std::vector<float> in(10);
    co_await e->receive(1, message(10), bytes(in));
  };
  runtime->spawn("waits", body(endpoint.get()));
  auto destroy = [&endpoint] { endpoint.reset(); };
  asio::post(runtime->context(), destroy);
  EXPECT_THROW(runtime->run(), Error);
}

}  // namespace
}  // namespace ripieno::transport
