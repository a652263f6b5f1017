// One rank of a job over real links, on loopback, with a runtime of its own.
#pragma once

#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ripieno/strategy/registry.h"
#include "ripieno/testing/linear_learner.h"
#include "ripieno/transport/counted.h"
#include "tests/transport/ranks.h"

namespace ripieno::testing {

struct LinkedRank {
  LinkedRank(Way way, const strategy::StrategyInfo& info, const strategy::Plan& plan, const LinearOptions& options,
             int rank, const std::vector<int>& fds)
      : runtime(real_runtime(0)),
        endpoint(std::make_shared<transport::CountedEndpoint>(
            make_endpoint(way, *runtime, rank, fds, {.link = {.timeout = std::chrono::seconds(60)}}))),
        learner(*runtime, options),
        recorder(*runtime, &endpoint->ledger(), nullptr),
        connections(fds) {
    strategy::Workplace place{collective::Communicator(endpoint), learner, recorder, nullptr, {}};
    place.goes_on_with = [this](const collective::Communicator&) {
      if (when_regrouped) when_regrouped();
    };
    strategy = make_strategy(info, plan, std::move(place));
  }

  void run() {
    try {
      runtime->spawn(text("rank ", endpoint->rank()), strategy->run());
      runtime->run();
    } catch (const Error& e) {
      error = e.what();
    }
  }
  /// Throws, where it can tell no other rank: as a process that is killed.
  [[noreturn]] void die() {
    for (const int fd : connections) {
      if (fd >= 0) ::shutdown(fd, SHUT_RDWR);
    }
    fail(ErrorKind::data, "dies");
  }
  /// Ends its connections.
  void leave() {
    strategy.reset();
    endpoint.reset();
  }

  std::vector<double> own() {
    const auto span = learner.parameters().as<double>();
    return {span.begin(), span.end()};
  }
  const observe::Traffic& traffic() const { return endpoint->ledger().total(observe::Purpose::exchange); }

  std::unique_ptr<Runtime> runtime;  // first: it outlives all that holds its handlers
  std::shared_ptr<transport::CountedEndpoint> endpoint;
  LinearLearner learner;
  observe::Recorder recorder;
  std::unique_ptr<strategy::Strategy> strategy;
  std::vector<int> connections;
  std::function<void()> when_regrouped;  ///< after a loss, before it recovers
  std::string error;
};

using LinkedRanks = std::vector<std::unique_ptr<LinkedRank>>;

/// Trains on a thread a rank, each with its options. `begin` is called with every rank before it trains. No endpoint is
/// closed before all are through, except of ranks that end with an error.
inline LinkedRanks train_over_links(Way way, const strategy::StrategyInfo& info, const strategy::Plan& plan,
                                    const std::vector<LinearOptions>& options,
                                    const std::function<void(int, LinkedRank&)>& begin = {}) {
  const int size = static_cast<int>(options.size());
  const auto fds = connect_all(size);
  LinkedRanks ranks(options.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto& own = ranks[static_cast<std::size_t>(rank)];
      own = std::make_unique<LinkedRank>(way, info, plan, options[static_cast<std::size_t>(rank)], rank,
                                         fds[static_cast<std::size_t>(rank)]);
      if (begin) begin(rank, *own);
      own->run();
      if (!own->error.empty()) own->leave();
    });
  }
  for (auto& thread : threads) thread.join();
  return ranks;
}

}  // namespace ripieno::testing
