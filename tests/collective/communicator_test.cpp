#include "ripieno/collective/communicator.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "ripieno/collective/execute.h"
#include "ripieno/collective/virtual_cluster.h"
#include "ripieno/core/async.h"

namespace ripieno::collective {
namespace {

struct Place {
  std::int32_t rank;
  double twice;
  bool operator==(const Place&) const = default;
};

Task<> tell(Communicator comm, int root) {
  const int rank = comm.rank(), ranks = comm.size();
  const int from_root = co_await comm.broadcast(10 * rank, root);
  EXPECT_EQ(from_root, 10 * root);
  const Place own{rank, 2.0 * rank};
  const std::vector<Place> places = co_await comm.all_gather(own);
  for (int i = 0; i < ranks; ++i) EXPECT_EQ(places[static_cast<std::size_t>(i)], (Place{i, 2.0 * i}));
  const auto total = co_await comm.all_reduce(std::int64_t{1} << rank);
  EXPECT_EQ(total, (std::int64_t{1} << ranks) - 1);
  const auto least = co_await comm.all_reduce(static_cast<std::int32_t>(100 - rank), Reduction::minimum);
  EXPECT_EQ(least, 100 - (ranks - 1));
  std::vector<std::uint16_t> some;
  if (rank == root) some = {7, 8, 9};
  some = co_await comm.broadcast(some, root);
  EXPECT_EQ(some, (std::vector<std::uint16_t>{7, 8, 9}));
  const std::string word = co_await comm.broadcast(text("rank ", rank), root);
  EXPECT_EQ(word, text("rank ", root));
  const std::vector<std::string> words = co_await comm.all_gather(std::string(static_cast<std::size_t>(rank), 'x'));
  for (int i = 0; i < ranks; ++i) EXPECT_EQ(words[static_cast<std::size_t>(i)].size(), static_cast<std::size_t>(i));
  const std::vector<std::string> nothing = co_await comm.all_gather(std::string());
  EXPECT_EQ(nothing, std::vector<std::string>(static_cast<std::size_t>(ranks)));
}

TEST(Communicator, MembersTellEachOtherValuesOfAnyType) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (int root = 0; root < ranks; root += 3) {
      VirtualCluster cluster(ranks);
      cluster.run([&](Communicator comm) { return tell(comm, root); });
    }
  }
}

TEST(Communicator, ValuesOfAnotherSizeAreNoticed) {
  VirtualCluster cluster(2);
  const auto differ = [](Communicator comm) -> Task<> {
    if (comm.rank() == 0) {
      co_await comm.broadcast(std::int32_t{1});
    } else {
      co_await comm.broadcast(std::int64_t{1});
    }
  };
  try {
    cluster.run([&](Communicator comm) { return differ(comm); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
  }
}

Task<> wait_for_all(Communicator comm, Duration* last, std::vector<Duration>* passed) {
  co_await comm.runtime().sleep(from_seconds(comm.rank()));
  *last = std::max(*last, comm.runtime().now());
  co_await comm.barrier();
  (*passed)[static_cast<std::size_t>(comm.rank())] = comm.runtime().now();
}

TEST(Communicator, NobodyPassesABarrierBeforeAllAreThere) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    VirtualCluster cluster(ranks);
    Duration last{0};
    std::vector<Duration> passed(static_cast<std::size_t>(ranks));
    cluster.run([&](Communicator comm) { return wait_for_all(comm, &last, &passed); });
    for (const Duration when : passed) EXPECT_GE(when, last);
  }
}

/// Splits, and tries the part: who is in it, in which order, and that sums are of its members alone.
Task<> try_part(Communicator comm, std::vector<int> colours, std::vector<int> keys) {
  const auto own = static_cast<std::size_t>(comm.rank());
  const auto part = co_await comm.split(colours[own], keys[own]);
  if (colours[own] < 0) {
    EXPECT_FALSE(part.has_value());
    co_return;
  }
  std::vector<int> expected;
  for (int i = 0; i < comm.size(); ++i) {
    if (colours[static_cast<std::size_t>(i)] == colours[own]) expected.push_back(i);
  }
  std::stable_sort(expected.begin(), expected.end(),
                   [&](int a, int b) { return keys[static_cast<std::size_t>(a)] < keys[static_cast<std::size_t>(b)]; });
  std::vector<int> members;
  for (int i = 0; i < part->size(); ++i) members.push_back(part->member(i));
  EXPECT_EQ(members, expected);
  EXPECT_EQ(part->member(part->rank()), comm.rank());
  EXPECT_NE(part->scope(), comm.scope());
  const std::vector<int> ranks = co_await part->all_gather(comm.rank());
  EXPECT_EQ(ranks, expected);
  constexpr std::array names{"ring", "halving-doubling", "direct"};  // one for each shape
  const char* const route = names[static_cast<std::size_t>(keys[0])];
  std::vector<float> numbers(5, static_cast<float>(1 << comm.rank()));
  const ExecuteOptions options;
  co_await all_reduce(find_route(route), *part, NumberSpan(numbers), options);
  float sum = 0;
  for (const int member : expected) sum += static_cast<float>(1 << member);
  EXPECT_EQ(numbers, std::vector<float>(5, sum)) << route;
}

/// All ways to part `ranks` ranks: each joins one of the parts before it, or begins a new one.
void for_all_partitions(int ranks, std::vector<int>& colours, int parts, const std::function<void()>& body) {
  if (static_cast<int>(colours.size()) == ranks) return body();
  for (int colour = 0; colour <= parts; ++colour) {
    colours.push_back(colour);
    for_all_partitions(ranks, colours, std::max(parts, colour + 1), body);
    colours.pop_back();
  }
}

TEST(Communicator, PartsOfEveryShapeAreByThemselves) {
  int shapes = 0;
  for (int ranks = 1; ranks <= 8; ++ranks) {
    std::vector<int> colours, keys(static_cast<std::size_t>(ranks));
    for_all_partitions(ranks, colours, 0, [&] {
      for (std::size_t i = 0; i < keys.size(); ++i)
        keys[i] = static_cast<int>((i * 5 + static_cast<std::size_t>(shapes)) % 3);
      ++shapes;
      VirtualCluster cluster(ranks);
      cluster.run([&](Communicator comm) { return try_part(comm, colours, keys); });
    });
  }
  EXPECT_EQ(shapes, 1 + 2 + 5 + 15 + 52 + 203 + 877 + 4140);  // Bell's numbers
}

TEST(Communicator, WhoTakesNoPartGetsNone) {
  VirtualCluster cluster(5);
  cluster.run([](Communicator comm) { return try_part(comm, {0, -1, 0, -1, 1}, {0, 0, 0, 0, 0}); });
}

Task<> part_of_part(Communicator comm, std::set<transport::Scope>* scopes) {
  const auto halves = co_await comm.split(comm.rank() % 2);
  const auto again = co_await comm.split(comm.rank() % 2);
  const auto quarters = co_await halves->split(halves->rank() % 2);
  for (const auto* one : {&halves, &again, &quarters}) scopes->insert((*one)->scope());
  const std::vector<int> ranks = co_await quarters->all_gather(comm.rank());
  EXPECT_EQ(ranks, (std::vector<int>{comm.rank() % 4, comm.rank() % 4 + 4}));
}

TEST(Communicator, PartsOfPartsAndLaterPartsHaveScopesOfTheirOwn) {
  VirtualCluster cluster(8);
  std::vector<std::set<transport::Scope>> scopes(8);
  cluster.run([&](Communicator comm) { return part_of_part(comm, &scopes[static_cast<std::size_t>(comm.rank())]); });
  for (const auto& one : scopes) EXPECT_EQ(one, scopes[0]);
  EXPECT_EQ(scopes[0].size(), 3u);
  EXPECT_EQ(scopes[0].count(0), 0u);
}

Task<> world_of_part(Communicator comm, std::vector<int> colours, World* world) {
  const auto part = co_await comm.split(colours[static_cast<std::size_t>(comm.rank())]);
  if (part && comm.rank() == 0) *world = part->world();
}

TEST(Communicator, APartKnowsItsNodesWhereTheyAreEven) {
  const auto world_of = [](std::vector<int> colours) {
    VirtualCluster cluster(8);
    World world(1);
    cluster.run([&](Communicator comm) { return world_of_part(comm.on_nodes(4), colours, &world); });
    return world;
  };
  EXPECT_EQ(world_of({0, 0, 0, 0, 0, 0, 0, 0}), World(8, 4));
  EXPECT_EQ(world_of({0, 0, 1, 1, 0, 0, 1, 1}), World(4, 2));
  EXPECT_EQ(world_of({0, 0, 0, 1, 0, 0, 1, 1}), World(5, 3));
  EXPECT_EQ(world_of({0, 1, 1, 1, 0, 0, 1, 1}), World(3, 1));
  EXPECT_EQ(world_of({0, 0, 0, 1, 1, 1, 1, 1}), World(3, 3));
}

Task<> two_at_once(Communicator comm, std::uint32_t second_channel) {
  std::vector<float> a(10, 1), b(10, 2);
  ExecuteOptions first, second;
  second.channel = second_channel;
  std::vector<Task<>> both;
  both.push_back(all_reduce(find_route("ring"), comm, NumberSpan(a), first));
  both.push_back(all_reduce(find_route("ring"), comm, NumberSpan(b), second));
  Task<> together = all(comm.runtime(), std::move(both), comm.ending());
  co_await std::move(together);
  EXPECT_EQ(a[0], static_cast<float>(comm.size()));
  EXPECT_EQ(b[0], 2.0f * static_cast<float>(comm.size()));
}

TEST(Communicator, TwoOperationsAtOnceNeedTwoChannels) {
  VirtualCluster cluster(3);
  cluster.run([](Communicator comm) { return two_at_once(comm, comm.take_channels()); });
  try {
    cluster.run([](Communicator comm) { return two_at_once(comm, 0); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("two operations at once on exchange channel 0"), std::string::npos)
        << error.what();
  }
}

Task<> end_one(Communicator comm, bool whole) {
  std::optional<Communicator> copy;
  co_await comm.duplicate(&copy);
  EXPECT_EQ(copy->size(), comm.size());
  EXPECT_EQ(copy->rank(), comm.rank());
  EXPECT_NE(copy->scope(), comm.scope());
  co_await comm.runtime().sleep(std::chrono::seconds(1));  // all have it
  const Communicator& ended = whole ? comm : *copy;
  const Communicator& late = whole ? *copy : comm;
  if (comm.rank() == 1) ended.abort(std::make_exception_ptr(Error(ErrorKind::data, "given up")));
  const std::exception_ptr error = co_await error_of(late.barrier());
  EXPECT_EQ(error != nullptr, whole);
}

TEST(Communicator, ADuplicateEndsWithTheWholeButNotTheWholeWithIt) {
  for (const bool whole : {false, true}) {
    VirtualCluster cluster(3);
    cluster.run([&](Communicator comm) { return end_one(comm, whole); });
  }
}

TEST(Communicator, GivesChannelsOutOnce) {
  VirtualCluster cluster(2);
  const Communicator comm = cluster.comm(0), copy = comm;
  EXPECT_EQ(comm.take_channels(3), 1u);
  EXPECT_EQ(copy.take_channels(1), 4u);  // one state
  EXPECT_EQ(comm.take_channels(1), 5u);
}

}  // namespace
}  // namespace ripieno::collective
