// Several exchanges in flight between the same ranks, submitted and waited for by eight threads of each.
#include <gtest/gtest.h>

#include "ripieno/collective/execute.h"
#include "ripieno/core/progress.h"
#include "ripieno/transport/counted.h"
#include "tests/transport/ranks.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;

constexpr int pair_of_ranks = 2, threads = 8, exchanges = 40;

Task<> divide(collective::Communicator comm, std::vector<collective::Communicator>* parts) {
  for (int i = 0; i < threads; ++i) parts->push_back(*co_await comm.split(0));
}

/// Sums of numbers that say which thread and exchange they are of; two at a time.
void exchange_all(Progress& progress, const collective::Communicator& comm, int thread) {
  std::vector<std::vector<float>> numbers;
  std::vector<Work> works;
  const std::uint32_t channels = comm.take_channels(2);
  for (int i = 0; i < exchanges; ++i) {
    numbers.emplace_back(static_cast<std::size_t>(1 + 997 * i), static_cast<float>(100 * thread + i + comm.rank()));
  }
  for (int i = 0; i < exchanges; ++i) {
    collective::ExecuteOptions options;
    options.channel = channels + static_cast<std::uint32_t>(i % 2);
    works.push_back(progress.submit(
        "sum", collective::all_reduce(collective::find_route("ring"), comm, NumberSpan(numbers[i]), options)));
    if (i > 0) works[i - 1].wait();
  }
  works.back().wait();
  for (int i = 0; i < exchanges; ++i) {
    const float expected = 2 * static_cast<float>(100 * thread + i) + 1;
    EXPECT_TRUE(std::all_of(numbers[i].begin(), numbers[i].end(), [&](float x) { return x == expected; }))
        << thread << " " << i;
  }
}

class ProgressOverLinks : public ::testing::TestWithParam<Way> {};

TEST_P(ProgressOverLinks, EightThreadsExchangeAtOnce) {
  const auto fds = connect_all(pair_of_ranks);
  std::vector<std::thread> processes;
  for (int rank = 0; rank < pair_of_ranks; ++rank) {
    processes.emplace_back([&, rank] {
      const auto runtime = real_runtime(rank);
      const auto endpoint =
          std::make_shared<CountedEndpoint>(make_endpoint(GetParam(), *runtime, rank, fds[rank], SharedOptions()));
      Progress progress(*runtime);
      const collective::Communicator comm(endpoint);
      std::vector<collective::Communicator> parts;
      progress.run("parts", divide(comm, &parts));
      std::vector<std::thread> submitting;
      for (int thread = 0; thread < threads; ++thread) {
        submitting.emplace_back([&, thread] { exchange_all(progress, parts[thread], thread); });
      }
      for (std::thread& one : submitting) one.join();
      progress.run("the end", comm.barrier());
    });
  }
  for (std::thread& one : processes) one.join();
}

INSTANTIATE_TEST_SUITE_P(Every, ProgressOverLinks, ::testing::Values(Way::tcp, Way::shared),
                         [](const auto& one) { return one.param == Way::tcp ? "tcp" : "shared"; });

}  // namespace
}  // namespace ripieno::transport
