// Ranks over loopback for the tests of what links them: a thread each, with a real runtime of its own.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ripieno/transport/mpi/endpoint.h"
#include "ripieno/transport/shared/endpoint.h"
#include "ripieno/transport/simulated/linked_network.h"
#include "ripieno/transport/tcp/endpoint.h"
#include "tests/transport/own_mpi.h"
#include "tests/transport/own_transport.h"

namespace ripieno::testing {

using asio::ip::tcp;

/// Connected pairs of file descriptors: [i][j] is i's way to j.
inline std::vector<std::vector<int>> connect_all(int ranks) {
  std::vector<std::vector<int>> fds(ranks, std::vector<int>(ranks, -1));
  asio::io_context context;
  tcp::acceptor acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  for (int i = 0; i < ranks; ++i) {
    for (int j = 0; j < i; ++j) {
      tcp::socket there(context), here(context);
      there.connect(acceptor.local_endpoint());
      acceptor.accept(here);
      fds[i][j] = there.release();
      fds[j][i] = here.release();
    }
  }
  return fds;
}

inline transport::PeerSockets sockets_of(Runtime& runtime, const std::vector<int>& fds) {
  transport::PeerSockets sockets(fds.size());
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (fds[i] >= 0) sockets[i].emplace(runtime.context(), tcp::v4(), fds[i]);
  }
  return sockets;
}

/// How the ranks of a test reach each other: TCP alone, shared memory where they can, a transport that was added, or
/// MPI (an MPI of the test's own: own_mpi.h); or links in virtual time, where no rank may block its thread.
enum class Way : std::uint8_t { tcp, shared, own, mpi, virtual_links };
inline constexpr Way every_way[]{Way::tcp, Way::shared, Way::own, Way::mpi};
inline constexpr Way every_way_and_time[]{Way::tcp, Way::shared, Way::own, Way::mpi, Way::virtual_links};

/// As tests by every way are named.
inline std::string way_of(const ::testing::TestParamInfo<Way>& info) {
  constexpr const char* names[]{"Tcp", "SharedMemory", "OwnTransport", "Mpi", "VirtualLinks"};
  return names[static_cast<std::size_t>(info.param)];
}

inline Task<> make_shared_endpoint(Runtime* runtime, int rank, std::vector<int> fds, transport::SharedOptions options,
                                   std::shared_ptr<transport::Endpoint>* endpoint) {
  transport::PeerSockets sockets = sockets_of(*runtime, fds);
  Task<std::shared_ptr<transport::Endpoint>> making =
      transport::shared_endpoint(*runtime, rank, std::move(sockets), options);
  *endpoint = co_await std::move(making);
}

inline Task<> join_own(transport::Joining joining, std::shared_ptr<transport::Endpoint>* endpoint) {
  Task<std::shared_ptr<transport::Endpoint>> making = transport::find_transport("queues").join(std::move(joining));
  *endpoint = co_await std::move(making);
}

inline std::shared_ptr<transport::Endpoint> make_endpoint(Way way, Runtime& runtime, int rank,
                                                          const std::vector<int>& fds, transport::SharedOptions options,
                                                          const std::shared_ptr<OwnMpiWorld>& mpi = nullptr) {
  if (way == Way::mpi) {
    return transport::mpi_endpoint(runtime, std::make_shared<OwnMpi>(mpi, rank), options.link);
  }
  if (way == Way::tcp) return transport::tcp_endpoint(runtime, rank, sockets_of(runtime, fds), {options.link});
  std::shared_ptr<transport::Endpoint> endpoint;
  if (way == Way::own) {
    const transport::Joining joining{runtime, rank, static_cast<int>(fds.size()), nullptr, options.link};
    runtime.spawn("joining", join_own(joining, &endpoint));
  } else {
    runtime.spawn("making an endpoint", make_shared_endpoint(&runtime, rank, fds, options, &endpoint));
  }
  runtime.run();
  return endpoint;
}

using Body = std::function<Task<>(transport::Endpoint*)>;

struct Outcome {
  std::string error;  // empty where all went well
  std::optional<ErrorKind> kind;
};

/// MPI's endpoints wait for each other when they end.
inline void close_together(std::vector<std::shared_ptr<transport::Endpoint>>& endpoints) {
  std::vector<std::thread> threads;
  for (auto& endpoint : endpoints) threads.emplace_back([&endpoint] { endpoint.reset(); });
  for (auto& thread : threads) thread.join();
}

/// A body's end in virtual time.
inline Task<> note_end(Body body, std::shared_ptr<transport::Endpoint>* endpoint, Outcome* outcome, bool leaves) {
  try {
    Task<> running = body(endpoint->get());
    co_await std::move(running);
  } catch (const Error& error) {
    *outcome = {error.what(), error.kind()};
  }
  if (leaves) endpoint->reset();
}

/// run_ranks() in virtual time.
inline std::vector<Outcome> run_virtually(const std::vector<Body>& bodies, transport::LinkOptions link, bool leave,
                                          std::uint64_t seed = 0) {
  const std::unique_ptr<Runtime> runtime = virtual_runtime(seed);
  transport::LinkedNetworkOptions options;
  options.link = link;
  transport::LinkedNetwork network(*runtime, static_cast<int>(bodies.size()), options);
  std::vector<Outcome> outcomes(bodies.size());
  std::vector<std::shared_ptr<transport::Endpoint>> endpoints(bodies.size());
  for (std::size_t rank = 0; rank < bodies.size(); ++rank) endpoints[rank] = network.endpoint(static_cast<int>(rank));
  for (std::size_t rank = 0; rank < bodies.size(); ++rank)
    runtime->spawn(text("rank ", rank), note_end(bodies[rank], &endpoints[rank], &outcomes[rank], leave));
  runtime->run();
  return outcomes;
}

/// Runs body(endpoint) on every rank, in a thread each, and returns how each ended. No endpoint is closed before all
/// are through, unless `leave` says so. `connections`: where bodies find what connect_all() has made.
inline std::vector<Outcome> run_ranks(Way way, std::vector<Body> bodies, transport::SharedOptions options = {},
                                      bool leave = false, std::vector<std::vector<int>>* connections = nullptr) {
  if (way == Way::virtual_links) return run_virtually(bodies, options.link, leave);
  const int ranks = static_cast<int>(bodies.size());
  const auto fds = connect_all(ranks);
  if (connections) *connections = fds;
  std::vector<Outcome> outcomes(ranks);
  std::vector<std::unique_ptr<Runtime>> runtimes(ranks);
  std::vector<std::shared_ptr<transport::Endpoint>> endpoints(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    runtimes[rank] = real_runtime(rank);
  }
  const auto mpi = std::make_shared<OwnMpiWorld>(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        endpoints[rank] = make_endpoint(way, *runtimes[rank], rank, fds[rank], options, mpi);
        runtimes[rank]->spawn(text("rank ", rank), bodies[rank](endpoints[rank].get()));
        runtimes[rank]->run();
      } catch (const Error& e) {
        outcomes[rank] = {e.what(), e.kind()};
      }
      if (leave) endpoints[rank].reset();
    });
  }
  for (auto& thread : threads) thread.join();
  if (way == Way::mpi) close_together(endpoints);
  return outcomes;
}

inline void expect_no_errors(const std::vector<Outcome>& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) EXPECT_EQ(outcomes[rank].error, "") << "rank " << rank;
}

inline transport::Message message(std::uint64_t count, std::uint32_t channel = 0, std::string_view operation = "test",
                                  DType type = DType::fp32) {
  return {{observe::Purpose::exchange, channel}, operation, type, count};
}

inline ConstBytes const_bytes(const std::vector<float>& v) { return std::as_bytes(std::span(v)); }
inline Bytes bytes(std::vector<float>& v) { return std::as_writable_bytes(std::span(v)); }

/// All ranks, as an abort's members.
inline std::vector<int> everyone(const transport::Endpoint* e) {
  std::vector<int> ranks(static_cast<std::size_t>(e->size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

inline void revoke_on_error(std::exception_ptr) {}

}  // namespace ripieno::testing
