#include "ripieno/collective/charged.h"

#include <gtest/gtest.h>

#include "ripieno/collective/encoded.h"
#include "ripieno/collective/virtual_cluster.h"

namespace ripieno::collective {
namespace {

constexpr std::size_t count = 1000;

AveragerOptions options_with(const char* codec, double number_s) {
  AveragerOptions options;
  options.codec.name = codec;
  options.codec.number_s = number_s;
  return options;
}

struct Averaged {
  Duration took;
  std::vector<float> numbers;
};

Averaged averaged(const char* codec, double number_s, int ranks) {
  VirtualCluster cluster(ranks);
  std::vector<std::vector<float>> numbers;
  std::vector<std::unique_ptr<Averager>> averagers;
  for (int rank = 0; rank < ranks; ++rank) {
    numbers.emplace_back(count, static_cast<float>(rank));
    averagers.push_back(make_averager(options_with(codec, number_s), {Slot{count}}, DType::fp32));
  }
  const auto body = [&](Communicator comm) {
    return averagers[static_cast<std::size_t>(comm.rank())]->average(
        comm, 0, NumberSpan(numbers[static_cast<std::size_t>(comm.rank())]), 1.0 / ranks);
  };
  const Duration took = cluster.run(body);
  return {took, numbers[0]};
}

TEST(Charged, AnAverageTakesItsCodingLonger) {
  for (const char* codec : {"fp32", "int8", "topk", "powersgd"}) {
    const Averaged free = averaged(codec, 0, 2), charged = averaged(codec, 1e-6, 2);
    EXPECT_EQ(charged.took - free.took, from_seconds(1e-3)) << codec;
    EXPECT_EQ(charged.numbers, free.numbers) << codec;
  }
  EXPECT_EQ(averaged("int8", 1e-6, 1).took, Duration(0)) << "one rank encodes nothing";
}

TEST(Charged, WhatIsSentToOneIsChargedHalfAtEachEnd) {
  const auto took = [](double number_s) {
    VirtualCluster cluster(2);
    std::vector<float> numbers(count, 1);
    const codec::CodecOptions codec = options_with("int8", number_s).codec;
    std::vector<EncodedStream> streams;
    for (int rank = 0; rank < 2; ++rank) streams.emplace_back(codec, count, DType::fp32, 0);
    constexpr transport::Channel channel{observe::Purpose::exchange, 0};
    const auto body = [&](Communicator comm) {
      transport::Endpoint* endpoint = &comm.endpoint();
      return comm.rank() == 0 ? streams[0].send(endpoint, 1, channel, "push", NumberSpan(numbers))
                              : streams[1].receive(endpoint, 0, channel, "push", NumberSpan(numbers));
    };
    return cluster.run(body);
  };
  EXPECT_EQ(took(1e-6) - took(0), from_seconds(1e-3));
}

}  // namespace
}  // namespace ripieno::collective
