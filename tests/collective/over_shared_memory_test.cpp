// The executor over real endpoints: every route gives the bits and the ledger that it gives over tcp, whatever the
// transport.
#include <gtest/gtest.h>

#include "ripieno/collective/execute.h"
#include "ripieno/numeric/elementwise.h"
#include "ripieno/transport/counted.h"
#include "tests/transport/ranks.h"

namespace ripieno::collective {
namespace {

using namespace ripieno::testing;

/// What one rank has at the end.
struct Reduced {
  std::vector<std::uint64_t> hashes;  ///< after every all-reduce
  observe::Traffic traffic;
};

enum class Where : std::uint8_t { registered, plain };

Task<> reduce_all(std::shared_ptr<transport::CountedEndpoint> endpoint, Where where, std::size_t elements,
                  std::vector<std::uint64_t>* hashes) {
  const auto memory = endpoint->memory(elements * 4);
  std::vector<float> own(elements);
  const std::span<float> values =
      where == Where::plain ? std::span(own) : std::span(reinterpret_cast<float*>(memory.get()), elements);
  const Communicator comm(endpoint);
  for (const Route& route : routes()) {
    for (const DType wire : {DType::fp32, DType::fp16, DType::bf16}) {
      for (const std::size_t segment_bytes : {std::size_t{0}, std::size_t{16'000}}) {
        Random random(5, static_cast<std::uint64_t>(endpoint->rank()));
        for (float& x : values) x = static_cast<float>(random.uniform(-1, 1));
        ExecuteOptions options{wire};
        options.segment_bytes = segment_bytes;
        co_await all_reduce(route, comm, NumberSpan(values), options);
        hashes->push_back(numeric::hash(NumberSpan(values)));
      }
    }
  }
  // Nobody leaves while others still need what it sends.
  std::vector<float> nothing(1);
  co_await all_reduce(find_route("ring"), comm, NumberSpan(nothing), {});
}

std::vector<Reduced> run(Way way, Where where, int ranks, std::size_t elements) {
  const auto fds = connect_all(ranks);
  std::vector<Reduced> reduced(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto runtime = real_runtime(rank);
      transport::SharedOptions options;
      options.ring_bytes = 8 << 10;
      options.placed_bytes = 1 << 10;
      auto endpoint =
          std::make_shared<transport::CountedEndpoint>(make_endpoint(way, *runtime, rank, fds[rank], options));
      runtime->spawn(text("rank ", rank), reduce_all(endpoint, where, elements, &reduced[rank].hashes));
      EXPECT_NO_THROW(runtime->run());
      reduced[rank].traffic = endpoint->ledger().total();
    });
  }
  for (auto& thread : threads) thread.join();
  return reduced;
}

/// Over TCP each payload has a checksum, too.
observe::Traffic without_checksums(observe::Traffic traffic) {
  constexpr std::uint64_t checksum = transport::tcp_framing_bytes - transport::frame_bytes;
  traffic.framing_sent -= checksum * traffic.messages_sent;
  traffic.framing_received -= checksum * traffic.messages_received;
  return traffic;
}

TEST(OverEveryTransport, EveryRouteHasTheBitsAndTheLedgerOfTcp) {
  for (const int ranks : {2, 3, 4, 5, 7}) {
    for (const std::size_t elements : {std::size_t{0}, std::size_t{3}, std::size_t{20'011}}) {
      const auto tcp = run(Way::tcp, Where::plain, ranks, elements);
      EXPECT_FALSE(tcp[0].hashes.empty());
      const auto expect_the_same = [&](const std::vector<Reduced>& other) {
        for (int rank = 0; rank < ranks; ++rank) {
          EXPECT_EQ(other[rank].hashes, tcp[0].hashes) << "P=" << ranks << " n=" << elements << " rank " << rank;
          EXPECT_EQ(other[rank].traffic, without_checksums(tcp[rank].traffic))
              << "P=" << ranks << " n=" << elements << " rank " << rank;
        }
      };
      expect_the_same(run(Way::shared, Where::plain, ranks, elements));
      expect_the_same(run(Way::shared, Where::registered, ranks, elements));
      expect_the_same(run(Way::own, Where::plain, ranks, elements));
    }
  }
}

}  // namespace
}  // namespace ripieno::collective
