#include "ripieno/launch/join.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "ripieno/core/async.h"
#include "ripieno/rendezvous/invitation.h"
#include "ripieno/rendezvous/rendezvous.h"
#include "tests/support/temporary_folder.h"
#include "tests/transport/own_transport.h"

namespace ripieno::launch {
namespace {

/// Sends `rank` round the ring and keeps what comes.
Task<> pass_on(transport::Endpoint* e, float* got) {
  const int next = (e->rank() + 1) % e->size(), last = (e->rank() + e->size() - 1) % e->size();
  const transport::Message message{{}, "test", DType::fp32, 1};
  const float own = static_cast<float>(e->rank());
  Task<> sending = e->send(next, message, std::as_bytes(std::span(&own, 1)));
  Task<> receiving = e->receive(last, message, std::as_writable_bytes(std::span(got, 1)));
  auto revoke = [e, next, last](std::exception_ptr error) { e->abort(0, {next, last}, error); };
  co_await both(e->runtime(), std::move(sending), std::move(receiving), revoke);
}

/// Joins, and passes a number on; how this rank reaches the next one.
std::string way_to_next(const Placement& place, const JoinOptions& options) {
  const int ranks = place.world_size;
  const transport::Cluster cluster = join(place, options);
  float got = -1;
  cluster.runtime->spawn("passes on", pass_on(cluster.endpoint.get(), &got));
  cluster.runtime->run();
  EXPECT_EQ(got, static_cast<float>((place.rank + ranks - 1) % ranks));
  return cluster.endpoint->way((place.rank + 1) % ranks);
}

/// Runs worker(place) for every rank of a job, in a thread each.
void run_workers(int ranks, const std::function<void(Placement)>& worker) {
  auto runtime = real_runtime(0);
  const std::string token = rendezvous::random_token();
  rendezvous::Rendezvous rendezvous(*runtime, "127.0.0.1:0", token, ranks);
  runtime->spawn("rendezvous", rendezvous.serve());
  std::vector<std::thread> workers;
  for (int rank = 0; rank < ranks; ++rank) {
    Placement place;
    place.rank = rank;
    place.world_size = ranks;
    place.rendezvous = rendezvous.address();
    place.token = token;
    workers.emplace_back([&worker, place] { worker(place); });
  }
  runtime->run();
  for (auto& thread : workers) thread.join();
}

/// How the ranks of a job of `ranks` reach the next one.
std::vector<std::string> ways(int ranks, const JoinOptions& options) {
  std::vector<std::string> ways(ranks);
  run_workers(ranks, [&](const Placement& place) { ways[place.rank] = way_to_next(place, options); });
  return ways;
}

TEST(Join, WorkersOfOneHostShareMemoryUnlessTold) {
  EXPECT_EQ(ways(3, {}), std::vector<std::string>(3, "shared memory"));
  JoinOptions over_tcp;
  over_tcp.shared_memory = false;
  EXPECT_EQ(ways(2, over_tcp), std::vector<std::string>(2, "tcp"));
}

/// Ranks that no launcher of ours has started: each is told `place`, and rank 0 opens the rendezvous.
std::vector<std::string> ways_without_launcher(int ranks, Placement place) {
  std::vector<std::string> ways(ranks);
  std::vector<std::thread> workers;
  for (place.rank = 0, place.world_size = ranks; place.rank < ranks; ++place.rank) {
    place.opens_rendezvous = place.rank == 0;
    workers.emplace_back([&ways, place] { ways[place.rank] = way_to_next(place, {}); });
  }
  for (auto& worker : workers) worker.join();
  return ways;
}

TEST(Join, Rank0OpensTheRendezvousWhereNoLauncherDoes) {
  Placement place;
  place.token = rendezvous::random_token();
  auto runtime = real_runtime(0);
  place.rendezvous = rendezvous::Rendezvous(*runtime, "127.0.0.1:0", place.token, 3).address();  // free again
  EXPECT_EQ(ways_without_launcher(3, place), std::vector<std::string>(3, "shared memory"));
}

TEST(Join, Rank0InvitesByAFileWhereNobodyKnowsAnAddress) {
  const TemporaryFolder folder;
  Placement place;
  const std::filesystem::path file = folder.path() / "job";
  place.invitation = std::make_shared<rendezvous::InvitationFile>(file);
  // One of an earlier job whose rank 0 was killed: nobody listens there.
  place.invitation->leave({{"127.0.0.1:1"}, rendezvous::random_token()});
  EXPECT_EQ(ways_without_launcher(3, place), std::vector<std::string>(3, "shared memory"));
  EXPECT_FALSE(std::filesystem::exists(file)) << "all have come";

  place.listen = "0.0.0.0";  // as where there are other hosts
  EXPECT_EQ(ways_without_launcher(2, place), std::vector<std::string>(2, "shared memory"));
}

TEST(Join, WithoutRank0NobodyWaitsForever) {
  const TemporaryFolder folder;
  Placement place;
  place.rank = 1;
  place.world_size = 2;
  place.invitation = std::make_shared<rendezvous::InvitationFile>(folder.path() / "job");
  JoinOptions options;
  options.meeting = std::chrono::milliseconds(300);
  try {
    join(place, options);
    FAIL() << "rank 0 is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::peer);
    EXPECT_NE(std::string(error.what()).find(place.invitation->name()), std::string::npos) << error.what();
  }
  place.cannot_meet = "the moon is full";
  try {
    join(place, options);
    FAIL() << "they cannot meet";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the moon is full");
  }
}

TEST(Join, ThroughATransportOfOnesOwnThatNeedsNoRendezvous) {
  JoinOptions options;
  options.transport = "queues";
  std::vector<std::string> ways(3);
  std::vector<std::thread> workers;
  for (int rank = 0; rank < 3; ++rank) {
    workers.emplace_back([&, rank] {
      Placement place;
      place.rank = rank;
      place.world_size = 3;
      ways[rank] = way_to_next(place, options);
    });
  }
  for (auto& worker : workers) worker.join();
  EXPECT_EQ(ways, std::vector<std::string>(3, "a queue"));
}

TEST(Join, ThroughATransportOfOnesOwnRecipesAreComparedToo) {
  std::vector<std::string> errors(3);
  std::vector<std::thread> workers;
  for (int rank = 0; rank < 3; ++rank) {
    workers.emplace_back([&, rank] {
      JoinOptions options;
      options.transport = "queues";
      options.digest = rank == 1 ? 0xb : 0xa;
      Placement place;
      place.rank = rank;
      place.world_size = 3;
      try {
        join(place, options);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::mismatch);
        errors[rank] = error.what();
      }
    });
  }
  for (auto& worker : workers) worker.join();
  EXPECT_EQ(errors[1],
            "rank 1 was started with another recipe than rank 0 (digests b and a): give all workers the same recipe "
            "and options");
  EXPECT_EQ(errors[2],
            "rank 2 was started with another recipe than rank 1 (digests a and b): give all workers the same recipe "
            "and options");
}

TEST(Join, ThroughNoTransportOrOneOfVirtualTimeIsRefused) {
  for (const auto& [name, words] :
       {std::pair("pigeons", "there is no transport \"pigeons\"; known are tcp, mpi, simulated, queues"),
        std::pair("simulated",
                  "transport simulated runs all ranks of a job in one process, in virtual "
                  "time: workers cannot join through it")}) {
    JoinOptions options;
    options.transport = name;
    try {
      join(Placement{}, options);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_EQ(std::string(error.what()), words);
    }
  }
}

TEST(Join, WorkersThatDoNotAgreeOnSharingMemorySaySo) {
  std::vector<std::string> errors(3);
  run_workers(3, [&errors](Placement place) {
    place.shared_memory = place.rank != 1;
    try {
      join(place, {});
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::mismatch || error.kind() == ErrorKind::peer);
      errors[place.rank] = error.what();
    }
  });
  EXPECT_EQ(errors[1],
            "shared memory is off on rank 1 and on on rank 0: set RIPIENO_SHARED_MEMORY to the same on all workers");
  for (const int rank : {0, 2}) EXPECT_NE(errors[rank], "");
}

Task<> send_or_receive(transport::Endpoint* e, float* value) {
  const transport::Message message{{}, "test", DType::fp32, 1};
  if (e->rank() == 0) {
    co_await e->send(1, message, std::as_bytes(std::span(value, 1)));
  } else {
    co_await e->receive(0, message, std::as_writable_bytes(std::span(value, 1)));
  }
}

TEST(Join, WhatIsOnItsWayArrivesAlsoWhenItsSenderHasLeft) {
  JoinOptions far_away;
  far_away.shape.delay = std::chrono::milliseconds(30);
  run_workers(2, [&far_away](const Placement& place) {
    float value = place.rank == 0 ? 7 : 0;
    const transport::Cluster cluster = join(place, far_away);
    cluster.runtime->spawn("last message", send_or_receive(cluster.endpoint.get(), &value));
    EXPECT_NO_THROW(cluster.runtime->run());
    EXPECT_EQ(value, 7);
  });
}

TEST(Join, AProcessThatNobodyLaunchedIsAJobOfOne) {
  const transport::Cluster cluster = join(Placement{});
  EXPECT_EQ(cluster.endpoint->size(), 1);
  EXPECT_NE(cluster.endpoint->memory(100), nullptr);
}

}  // namespace
}  // namespace ripieno::launch
