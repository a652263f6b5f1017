// Aborts on the simulated network: a scope ends on all its members, at whatever moment, and the others go on.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "ripieno/collective/virtual_cluster.h"
#include "ripieno/core/async.h"

namespace ripieno::transport {
namespace {

using collective::VirtualCluster;

/// 1 ns of latency and 100 ps a byte: whatever happens, happens at a multiple of 100 ps.
SimulatedOptions quick(std::size_t turn_bytes = 0, std::size_t window_bytes = 64) {
  return {.link = {Duration(1000), Duration(100)}, .window_bytes = window_bytes, .turn_bytes = turn_bytes};
}

std::vector<int> all_of(int ranks) {
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  return members;
}

Message letter(Scope scope, std::uint64_t count) {
  return {{observe::Purpose::exchange, 0, scope}, "note", DType::fp32, count};
}

struct Told {
  std::string pending, later;
  Duration when{};
};

Task<std::string> failure_of(Task<> task) {
  try {
    co_await std::move(task);
  } catch (const Error& error) {
    co_return error.what();
  }
  co_return std::string();
}

/// Rank 2 gives scope 5 up; the others wait for it and then try once more.
Task<> give_up(collective::Communicator comm, std::vector<Told>* told) {
  Endpoint& endpoint = comm.endpoint();
  Told& own = (*told)[static_cast<std::size_t>(comm.rank())];
  float number = 1;
  const Bytes bytes(reinterpret_cast<std::byte*>(&number), sizeof number);
  const int other = comm.rank() == 2 ? 0 : 2;
  if (comm.rank() == 2) {
    co_await comm.runtime().sleep(Duration(300));
    endpoint.abort(5, all_of(3), std::make_exception_ptr(Error(ErrorKind::data, "rank 2's own error")));
    endpoint.abort(5, all_of(3), std::make_exception_ptr(Error(ErrorKind::data, "a second error")));
  }
  own.pending = co_await failure_of(endpoint.receive(other, letter(5, 1), bytes));
  own.when = comm.runtime().now();
  own.later = co_await failure_of(endpoint.send(other, letter(5, 1), bytes));
  EXPECT_EQ(comm.runtime().now(), own.when);
}

TEST(SimulatedAbort, TellsEveryMemberALatencyLater) {
  collective::VirtualCluster cluster(3, quick());
  std::vector<Told> told(3);
  cluster.run([&](collective::Communicator comm) { return give_up(comm, &told); });
  for (const int rank : {0, 1}) {
    const Told& own = told[static_cast<std::size_t>(rank)];
    EXPECT_EQ(own.pending, text("rank ", rank, ": rank 2 gave up: rank 2's own error"));
    EXPECT_EQ(own.later, own.pending);
    EXPECT_EQ(own.when, Duration(1300));
  }
  EXPECT_EQ(told[2].pending, "rank 2's own error");
  EXPECT_EQ(told[2].later, "rank 2's own error");
  EXPECT_EQ(told[2].when, Duration(300));
}

/// What the ranks of a job do in each scope, and how it ended.
struct ScopesJob {
  int ranks = 4, rounds = 3;
  std::vector<Scope> scopes{0, 7, 9};
  std::map<std::pair<int, Scope>, std::string> ends = {};  // "" or the error
  Duration last{};
};

/// Around a ring, numbers of which every rank knows what they must be.
Task<> go_around(collective::Communicator comm, Scope scope, ScopesJob* job) {
  Endpoint& endpoint = comm.endpoint();
  const int next = (comm.rank() + 1) % comm.size(), previous = (comm.rank() + comm.size() - 1) % comm.size();
  const auto give_up = [&endpoint, scope, members = all_of(job->ranks)](std::exception_ptr error) {
    endpoint.abort(scope, members, error);
  };
  const std::size_t count = 3 + scope;
  for (int round = 0; round < job->rounds; ++round) {
    // Of each round alone, so that what uses them after its end is seen by AddressSanitizer.
    auto own = std::make_unique<std::vector<float>>(count, static_cast<float>(100 * comm.rank() + round));
    auto others = std::make_unique<std::vector<float>>(count);
    const Outgoing out{next, letter(scope, count), NumberSpan(*own).bytes()};
    const Incoming in{previous, letter(scope, count), NumberSpan(*others).bytes()};
    Task<> both_ways = endpoint.exchange(out, in, give_up);
    co_await std::move(both_ways);
    for (const float one : *others) EXPECT_EQ(one, static_cast<float>(100 * previous + round));
  }
}

Task<> all_scopes(collective::Communicator comm, ScopesJob* job) {
  const auto one = [](collective::Communicator own, Scope scope, ScopesJob* of) -> Task<> {
    std::string end = co_await failure_of(go_around(own, scope, of));
    of->ends[{own.rank(), scope}] = end;
    of->last = own.runtime().now();
  };
  std::vector<Task<>> together;
  for (const Scope scope : job->scopes) together.push_back(one(comm, scope, job));
  Task<> ended = all(comm.runtime(), std::move(together), [](std::exception_ptr) {});
  co_await std::move(ended);
}

/// `rank` gives `scope` up at `when`, before whatever else happens then or after it. Returns when the last operation
/// ended.
Duration abort_at(Duration when, bool first, int rank, Scope scope, const SimulatedOptions& options, ScopesJob& job) {
  collective::VirtualCluster cluster(job.ranks, options);
  const auto abort = [&] {
    cluster.endpoint(rank).abort(scope, all_of(job.ranks), std::make_exception_ptr(Error(ErrorKind::data, "enough")));
  };
  if (first) cluster.runtime().call_at(when, abort);
  if (!first) cluster.runtime().call_at(when, [&, when] { cluster.runtime().call_at(when, abort); });
  cluster.run([&](collective::Communicator comm) { return all_scopes(comm, &job); });
  return job.last;
}

TEST(SimulatedAbort, AtAnyMomentEndsItsScopeAndNoOther) {
  for (const std::size_t turn_bytes : {0, 8}) {
    for (const std::size_t window : {0, 16, 1000}) {
      ScopesJob undisturbed;
      const Duration end = abort_at(from_seconds(1), true, 0, 7, quick(turn_bytes, window), undisturbed);
      for (const auto& [whose, error] : undisturbed.ends) EXPECT_EQ(error, "");
      int moments = 0;
      for (Duration when{0}; when <= end + Duration(2000); when += Duration(100), ++moments) {
        for (const bool first : {true, false}) {
          const Scope given_up = ScopesJob().scopes[static_cast<std::size_t>(moments) % 3];
          const int by = moments / 3 % 4;
          ScopesJob job;
          abort_at(when, first, by, given_up, quick(turn_bytes, window), job);
          ASSERT_EQ(job.ends.size(), 12u);
          const bool is_late = job.ends == undisturbed.ends;  // all had ended before
          for (const auto& [whose, error] : job.ends) {
            const auto [rank, scope] = whose;
            const std::string told = text("rank ", rank, ": rank ", by, " gave up: enough");
            if (scope != given_up || is_late) {
              EXPECT_EQ(error, "") << "rank " << rank << " in scope " << scope << ", " << given_up << " aborted at "
                                   << when.count();
            } else if (!error.empty()) {
              EXPECT_EQ(error, rank == by ? "enough" : told);
            }
          }
        }
      }
      EXPECT_GT(moments, 100);
    }
  }
}

TEST(SimulatedAbort, AnErrorOfOneRankEndsAllInItsScopeThroughTheExchange) {
  // Rank 1's receive expects another count: its exchange tells all.
  collective::VirtualCluster cluster(3, quick());
  std::vector<std::string> ends(3);
  const auto body = [&](collective::Communicator comm) -> Task<> {
    const auto run = [](collective::Communicator own) -> Task<> {
      std::vector<float> numbers(8);
      const std::size_t wrong = own.rank() == 1 ? 7 : 8;
      const auto give_up = [&own](std::exception_ptr error) { own.endpoint().abort(3, all_of(3), error); };
      const Outgoing out{(own.rank() + 1) % 3, letter(3, 8), NumberSpan(numbers).bytes()};
      const Incoming in{(own.rank() + 2) % 3, letter(3, wrong), NumberSpan(numbers).slice(0, wrong).bytes()};
      for (int round = 0; round < 2; ++round) {
        Task<> both_ways = own.endpoint().exchange(out, in, give_up);
        co_await std::move(both_ways);
      }
    };
    ends[static_cast<std::size_t>(comm.rank())] = co_await failure_of(run(comm));
  };
  cluster.run(body);
  const std::string cause =
      "rank 1 expects note of 7 fp32 on exchange channel 0 from rank 0, which sends note of 8 fp32 on exchange channel "
      "0";
  EXPECT_EQ(ends[1], cause);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(ends[static_cast<std::size_t>(rank)], text("rank ", rank, ": rank 1 gave up: ", cause));
  }
}

TEST(SimulatedAbort, BesideADeathAtAnyMomentNobodyWaitsForEver) {
  for (Duration when{0}; when <= Duration(14000); when += Duration(200)) {
    for (const Duration death : {Duration(500), Duration(3100), Duration(9000)}) {
      SimulatedOptions options = quick(0, 16);
      options.detection = Duration(2500);
      ScopesJob job;
      job.rounds = 6;
      collective::VirtualCluster cluster(job.ranks, options);
      cluster.kill_at(death, 3);
      cluster.runtime().call_at(when, [&] {
        cluster.endpoint(1).abort(7, all_of(4), std::make_exception_ptr(Error(ErrorKind::data, "enough")));
      });
      cluster.run_mortal([&](collective::Communicator comm) { return all_scopes(comm, &job); });
      for (const auto& [whose, error] : job.ends) EXPECT_NE(error, "") << whose.first << " in scope " << whose.second;
    }
  }
}

TEST(SimulatedAbort, ANetworkMayGoWithAllOfItUnderWay) {
  for (const std::size_t turn_bytes : {0, 8}) {
    for (Duration when{0}; when <= Duration(12000); when += Duration(300)) {
      ScopesJob job;
      collective::VirtualCluster cluster(job.ranks, quick(turn_bytes));
      cluster.runtime().call_at(when / 2, [&] {
        cluster.endpoint(2).abort(9, all_of(4), std::make_exception_ptr(Error(ErrorKind::data, "enough")));
      });
      const auto stop = [](Runtime* runtime, Duration at) -> Task<> {
        co_await runtime->sleep(at);
        fail(ErrorKind::data, "stop");
      };
      cluster.runtime().spawn("stop", stop(&cluster.runtime(), when));
      try {
        cluster.run([&](collective::Communicator comm) { return all_scopes(comm, &job); });
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "stop");
      }
    }
  }
}

}  // namespace
}  // namespace ripieno::transport
