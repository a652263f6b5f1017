#include "ripieno/collective/encoded.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "ripieno/collective/averager.h"
#include "ripieno/collective/virtual_cluster.h"
#include "tests/collective/averagers.h"

namespace ripieno::collective {
namespace {

constexpr transport::Channel channel{observe::Purpose::exchange, 7};
constexpr std::size_t encoded_elements = 1003;

std::vector<codec::CodecOptions> sendable() {
  std::vector<codec::CodecOptions> all;
  for (const codec::CodecInfo& info : codec::codecs()) {
    if (info.kind == codec::CodecKind::low_rank) continue;
    all.push_back({.name = std::string(info.name), .block = 64, .fraction = 0.05});
  }
  return all;
}

/// Two ends of one stream: rank 0 sends, rank 1 receives. The sender's numbers end as what was decoded.
struct Ends {
  explicit Ends(const codec::CodecOptions& options, std::size_t count = encoded_elements)
      : cluster(2), out(options, count, DType::fp32, 3), in(options, count, DType::fp32, 3) {}

  void carry(NumberSpan sent, NumberSpan received) {
    cluster.run([&](Communicator comm) {
      return comm.rank() == 0 ? out.send(&comm.endpoint(), 1, channel, "numbers", sent)
                              : in.receive(&comm.endpoint(), 0, channel, "numbers", received);
    });
    if (commits) out.commit();
  }

  bool commits = true;
  VirtualCluster cluster;
  EncodedStream out, in;
};

std::vector<float> some_numbers(int round) {
  Random random(1, static_cast<std::uint64_t>(round));
  std::vector<float> x(encoded_elements);
  for (float& value : x) value = static_cast<float>(random.uniform(-1, 1));
  return x;
}

TEST(EncodedStream, TheReceiverHasWhatTheSenderKnowsItDecodes) {
  for (const codec::CodecOptions& options : sendable()) {
    SCOPED_TRACE(options.name);
    Ends ends(options);
    std::vector<double> lost(encoded_elements);  // all rounds together
    double largest = 0;
    for (int round = 0; round < 20; ++round) {
      std::vector<float> given = some_numbers(round), sent = given, received(encoded_elements, 5.0f);
      ends.carry(NumberSpan(sent), NumberSpan(received));
      ASSERT_EQ(received, sent);
      for (std::size_t i = 0; i < encoded_elements; ++i) lost[i] += given[i] - received[i];
    }
    for (const double x : lost) largest = std::max(largest, std::abs(x));
    const observe::Traffic traffic = ends.cluster.ledger(0).total();
    if (const auto bytes = ends.out.bytes()) {
      EXPECT_EQ(traffic.payload_sent, 20 * *bytes);
      EXPECT_EQ(traffic.messages_sent, 20u);
    } else {
      EXPECT_EQ(traffic.messages_sent, 40u);  // each with its size before it
      EXPECT_LE(traffic.payload_sent, 20u * (8 + 16 * 51));
    }
    // Error feedback: what the rounds lost is one residual, and does not add up.
    const bool exact = codec::find_codec(options.name).lossless;
    EXPECT_EQ(largest == 0, exact);
    EXPECT_LT(largest, options.name.starts_with("topk") ? 20.0 : 2.5);
  }
}

TEST(EncodedStream, WhatIsSentAgainBeforeItIsCommittedIsTheSame) {
  for (const codec::CodecOptions& options : sendable()) {
    SCOPED_TRACE(options.name);
    Ends ends(options);
    for (int round = 0; round < 4; ++round) {
      std::vector<std::vector<float>> arrived;
      for (const bool commits : {false, false, true}) {
        ends.commits = commits;
        std::vector<float> sent = some_numbers(round), received(encoded_elements);
        ends.carry(NumberSpan(sent), NumberSpan(received));
        arrived.push_back(received);
      }
      EXPECT_EQ(arrived[0], arrived[1]);
      EXPECT_EQ(arrived[0], arrived[2]) << "round " << round;
    }
  }
}

TEST(EncodedStream, WithoutDataTheSameBytesMove) {
  for (const codec::CodecOptions& options : sendable()) {
    SCOPED_TRACE(options.name);
    Ends real(options), simulated(options);
    const NumberSpan nothing(nullptr, encoded_elements, DType::fp32);
    if (!real.out.bytes()) {
      try {
        simulated.carry(nothing, nothing);
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::usage);
        EXPECT_NE(std::string(error.what()).find(options.name), std::string::npos) << error.what();
      }
      continue;
    }
    std::vector<float> sent = some_numbers(0), received(encoded_elements);
    real.carry(NumberSpan(sent), NumberSpan(received));
    simulated.carry(nothing, nothing);
    EXPECT_EQ(simulated.cluster.ledger(0).total(), real.cluster.ledger(0).total());
  }
}

TEST(EncodedStream, NoNumbersAreNoMessageButTheirSize) {
  for (const codec::CodecOptions& options : sendable()) {
    Ends ends(options, 0);
    std::vector<float> none;
    ends.carry(NumberSpan(none), NumberSpan(none));
    EXPECT_EQ(ends.cluster.ledger(0).total().payload_sent, ends.out.bytes() ? 0u : 8u) << options.name;
    EXPECT_EQ(ends.cluster.ledger(0).total().messages_sent, ends.out.bytes() ? 0u : 1u) << options.name;
  }
}

TEST(EncodedStream, PowerSgdCannotBeSent) {
  try {
    EncodedStream({.name = "powersgd"}, 10, DType::fp32, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("powersgd"), std::string::npos);
  }
}

/// A peer that announces another size than an encoding of so many numbers can have.
Task<> announce(Communicator comm, transport::Channel on, std::string_view operation, std::uint64_t size) {
  const std::array<std::uint64_t, 1> announced{size};
  const transport::Message message{on, operation, DType::uint8, sizeof announced};
  const ConstBytes payload = std::as_bytes(std::span(announced));
  co_await comm.endpoint().send(1, message, payload);
}

template <class Receive>
void expect_refused(transport::Channel on, std::string_view operation, std::uint64_t size, Receive receive) {
  VirtualCluster cluster(2);
  try {
    cluster.run(
        [&](Communicator comm) { return comm.rank() == 0 ? announce(comm, on, operation, size) : receive(comm); });
    ADD_FAILURE() << "a size of " << size << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
    EXPECT_NE(std::string(error.what()).find(text("announces ", size, " bytes")), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("take 80 at most"), std::string::npos) << error.what();
  }
}

TEST(Encoding, ASizeThatCannotBeIsRefusedBeforeMemoryIsTaken) {
  const codec::CodecOptions options{.name = "topk-sampled",
                                    .fraction = 0.05};  // of 100: 2 * 5 pairs of 8 bytes at most
  std::vector<float> numbers(100, 1.0f);
  for (const std::uint64_t size : {std::uint64_t{81}, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    EncodedStream stream(options, 100, DType::fp32, 0);
    expect_refused(channel, "numbers", size, [&](Communicator comm) {
      return stream.receive(&comm.endpoint(), 0, channel, "numbers", NumberSpan(numbers));
    });
    for (const char* route : {"ring", "direct"}) {
      AveragerOptions averaging;
      averaging.route = route;
      averaging.codec = options;
      const auto averager = make_averager(averaging, {Slot{100}}, DType::fp32);
      const transport::Channel exchange{observe::Purpose::exchange, parts_of_a_channel};  // the first that is given out
      expect_refused(exchange, find_route(route).name, size,
                     [&](Communicator comm) { return averager->average(comm, 0, NumberSpan(numbers), 0.5); });
    }
  }
}

}  // namespace
}  // namespace ripieno::collective
