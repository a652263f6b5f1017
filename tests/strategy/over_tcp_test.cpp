// Every strategy over real connections: the bytes of its closed form, and the weights that it has in virtual time.
#include <gtest/gtest.h>

#include "ripieno/strategy/refusals.h"
#include "ripieno/testing/conformance.h"
#include "ripieno/testing/trial.h"
#include "tests/transport/tcp_ranks.h"

namespace ripieno::strategy {
namespace {

/// One rank of a job over loopback, with a real runtime of its own.
struct Rank {
  Rank(const StrategyInfo& info, const Plan& plan, const testing::LinearOptions& options, int rank,
       const std::vector<int>& fds)
      : runtime(real_runtime(0)),
        endpoint(std::make_shared<transport::CountedEndpoint>(transport::tcp_endpoint(
            *runtime, rank, testing::sockets_of(*runtime, fds), {.link = {.timeout = std::chrono::seconds(60)}}))),
        learner(*runtime, options),
        recorder(*runtime, &endpoint->ledger(), nullptr),
        strategy(make_strategy(info, plan, {collective::Communicator(endpoint), learner, recorder, nullptr})) {}

  void run() {
    try {
      runtime->spawn(text("rank ", endpoint->rank()), strategy->run());
      runtime->run();
    } catch (const Error& e) {
      error = e.what();
    }
  }

  std::vector<double> own() {
    const auto span = learner.parameters().as<double>();
    return {span.begin(), span.end()};
  }
  const observe::Traffic& traffic() const { return endpoint->ledger().total(observe::Purpose::exchange); }

  std::unique_ptr<Runtime> runtime;  // first: it outlives all that holds its handlers
  std::shared_ptr<transport::CountedEndpoint> endpoint;
  testing::LinearLearner learner;
  observe::Recorder recorder;
  std::unique_ptr<Strategy> strategy;
  std::string error;
};

/// Trains on a thread a rank; no endpoint is closed before all are through.
std::vector<std::unique_ptr<Rank>> train_over_tcp(const StrategyInfo& info, const Plan& plan,
                                                  const std::vector<testing::LinearOptions>& options) {
  const int size = static_cast<int>(options.size());
  const auto fds = testing::connect_all(size);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<Rank>(info, plan, options[rank], rank, fds[rank]));
  std::vector<std::thread> threads;
  for (auto& rank : ranks) threads.emplace_back([&rank] { rank->run(); });
  for (auto& thread : threads) thread.join();
  return ranks;
}

class OverTcp : public ::testing::TestWithParam<std::string_view> {};

TEST_P(OverTcp, SendsTheClosedFormsBytesAndEndsAsInVirtualTime) {
  const StrategyInfo& info = find_strategy(GetParam());
  const bool timing_decides = info.name == "ps-async" || info.name == "ps-ssp";
  for (const codec::CodecInfo& info_of_codec : codec::codecs()) {
    const std::string_view codec = info_of_codec.name;
    for (const int workers : {2, 3, 5}) {
      Plan plan = testing::conformance_plan();
      plan.epochs = 2;
      plan.exchange.codec.name = codec;
      try {
        refuse({info, plan, workers});
      } catch (const Error&) {
        continue;
      }
      const std::string here = text(info.name, " ", codec, " ", workers, " workers");
      testing::Trial simulated(info, workers, plan, {.samples = 55, .buffers = 3});
      simulated.run();
      const auto ranks = train_over_tcp(info, plan, simulated.options);

      observe::Traffic all;
      for (int r = 0; r < simulated.cluster.size(); ++r) {
        Rank& rank = *ranks[r];
        ASSERT_EQ(rank.error, "") << here << " rank " << r;
        all += rank.traffic();
        const auto form = info.bytes_sent(info, plan, rank.learner.layout(), simulated.workload(), r);
        // How many a sampled threshold lets through depends on the numbers; what servers send back is not encoded so.
        if (codec != "topk-sampled") {
          EXPECT_TRUE(form) << here;
        }
        if (form) {
          EXPECT_EQ(rank.traffic().payload_sent, *form) << here << " rank " << r;
        }
        if (timing_decides || r < simulated.first_worker()) continue;
        const auto own = simulated.learners[r]->parameters().as<double>();
        EXPECT_EQ(rank.own(), std::vector<double>(own.begin(), own.end())) << here << " rank " << r;
      }
      EXPECT_EQ(all.payload_sent, all.payload_received) << here;
      EXPECT_GT(all.payload_sent, 0u) << here;
      if (timing_decides) continue;
      const auto consensus = ranks[0]->strategy->consensus().as<double>();
      EXPECT_EQ(std::vector<double>(consensus.begin(), consensus.end()), simulated.weights()) << here;
      EXPECT_EQ(ranks[0]->recorder.epochs().back().accuracy, simulated.recorders[0]->epochs().back().accuracy) << here;
    }
  }
}

std::vector<std::string_view> strategies_over_tcp() {
  std::vector<std::string_view> names;
  for (const StrategyInfo& info : strategies()) {
    if (info.name != "single") names.push_back(info.name);
  }
  return names;
}

std::string over_tcp_name(const ::testing::TestParamInfo<std::string_view>& name) {
  std::string valid(name.param);
  std::replace(valid.begin(), valid.end(), '-', '_');
  return valid;
}

INSTANTIATE_TEST_SUITE_P(Every, OverTcp, ::testing::ValuesIn(strategies_over_tcp()), over_tcp_name);

}  // namespace
}  // namespace ripieno::strategy
