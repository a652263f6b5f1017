// What trains for real over loopback: a thread a rank, each with a runtime of its own.
#pragma once

#include <functional>

#include "ripieno/transport/cluster.h"
#include "tests/train/small_net.h"
#include "tests/transport/tcp_ranks.h"

namespace ripieno::testing {

/// Runs body(cluster) on every rank. The clusters live until all are through. Returns each rank's error, empty where
/// none.
inline std::vector<std::string> on_ranks(int ranks, const std::function<void(transport::Cluster&)>& body) {
  const auto fds = connect_all(ranks);
  std::vector<transport::Cluster> clusters(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    transport::Cluster& cluster = clusters[rank];
    cluster.runtime = real_runtime(0);
    cluster.endpoint = std::make_shared<transport::CountedEndpoint>(
        transport::tcp_endpoint(*cluster.runtime, rank, sockets_of(*cluster.runtime, fds[rank]),
                                {.link = {.timeout = std::chrono::seconds(60)}}));
  }
  std::vector<std::string> errors(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(clusters[rank]);
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

inline std::vector<float> floats(NumberSpan span) {
  const auto values = span.as<float>();
  return {values.begin(), values.end()};
}

/// What a rank of a real job came to.
struct RealRank {
  std::vector<float> weights;
  std::vector<observe::Span> spans;
  observe::StageTimes totals{};
};

/// The job of a TorchJob, over loopback in real time.
inline std::vector<RealRank> train_over_tcp(std::string_view strategy, int workers, strategy::Plan plan,
                                            train::TorchOptions options) {
  const TorchJob job(strategy, workers, plan, options);  // its learners' data and weights are taken, not its network
  std::vector<RealRank> ranks(workers);
  const auto errors = on_ranks(workers, [&](transport::Cluster& cluster) {
    const int rank = cluster.endpoint->rank();
    RealRank& own = ranks[rank];
    observe::Recorder recorder(*cluster.runtime, &cluster.endpoint->ledger(), nullptr);
    recorder.on_span = [&](const observe::Span& span) { own.spans.push_back(span); };
    const auto learner = job.make_learner(*cluster.runtime, recorder, rank);
    const auto trainer = strategy::make_strategy(
        job.info, plan, {collective::Communicator(cluster.endpoint), *learner, recorder, nullptr});
    cluster.runtime->spawn(text("rank ", rank), trainer->run());
    cluster.runtime->run();
    own.weights = floats(trainer->consensus());
    own.totals = recorder.totals();
  });
  for (int rank = 0; rank < workers; ++rank) EXPECT_EQ(errors[rank], "") << strategy << " rank " << rank;
  return ranks;
}

}  // namespace ripieno::testing
