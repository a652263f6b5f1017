#include "ripieno/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ripieno/core/error.h"

namespace ripieno {
namespace {

using Indices = std::vector<std::uint32_t>;

constexpr std::uint32_t counts[] = {0, 1, 2, 3, 7, 16, 31, 64, 100, 257};
constexpr std::uint32_t batches[] = {1, 2, 3, 8, 13, 64, 100, 1000};
constexpr int world_sizes[] = {1, 2, 3, 4, 5, 7, 8, 13};

Indices all_of(std::uint32_t n) {
  Indices all(n);
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

Indices sorted(Indices indices) {
  std::sort(indices.begin(), indices.end());
  return indices;
}

Sampler sampler(std::uint32_t n, std::uint32_t batch, int worker, int workers, Partition partition,
                std::uint64_t seed = 5) {
  return {n, {.seed = seed, .worker = worker, .workers = workers, .batch = batch, .partition = partition}};
}

/// A worker's samples of an epoch, in order.
Indices epoch_of(Sampler& sampler, std::uint32_t epoch) {
  Indices all;
  for (std::uint32_t step = 0; step < sampler.steps(); ++step) {
    const Indices part = sampler.batch(epoch, step).indices;
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(Share, CutsIntoContiguousPartsThatDifferByAtMostOne) {
  for (const std::uint32_t n : {0u, 1u, 2u, 5u, 64u, 1000u, 0xFFFFFFFFu}) {
    for (const int workers : {1, 2, 3, 5, 8, 1000}) {
      std::uint32_t next = 0, least = n, most = 0;
      for (int w = 0; w < workers; ++w) {
        const auto [begin, end] = share(n, w, workers);
        ASSERT_EQ(begin, next);
        ASSERT_LE(begin, end);
        next = end;
        least = std::min(least, end - begin);
        most = std::max(most, end - begin);
      }
      EXPECT_EQ(next, n);
      EXPECT_LE(most - least, 1u) << n << " over " << workers;
    }
  }
  EXPECT_THROW(share(5, 3, 3), Error);
  EXPECT_THROW(share(5, -1, 3), Error);
}

TEST(Sampler, GlobalBatchesAreTheSameForEveryNumberOfWorkers) {
  for (const std::uint32_t n : counts) {
    for (const std::uint32_t batch : batches) {
      Sampler one = sampler(n, batch, 0, 1, Partition::global_batches);
      for (const int workers : world_sizes) {
        std::vector<Sampler> all;
        for (int w = 0; w < workers; ++w) all.push_back(sampler(n, batch, w, workers, Partition::global_batches));
        for (std::uint32_t step = 0; step < one.steps(); ++step) {
          const SampleBatch whole = one.batch(3, step);
          Indices joined;
          std::size_t least = n, most = 0;
          for (Sampler& worker : all) {
            ASSERT_EQ(worker.steps(), one.steps());
            const SampleBatch part = worker.batch(3, step);
            EXPECT_EQ(part.global_count, whole.indices.size());
            joined.insert(joined.end(), part.indices.begin(), part.indices.end());
            least = std::min(least, part.indices.size());
            most = std::max(most, part.indices.size());
          }
          ASSERT_EQ(joined, whole.indices) << n << " samples, batch " << batch << ", " << workers << " workers";
          EXPECT_LE(most - least, 1u);
        }
      }
    }
  }
}

TEST(Sampler, GlobalBatchesHoldEverySampleOnceAnEpoch) {
  for (const std::uint32_t n : counts) {
    for (const std::uint32_t batch : batches) {
      Sampler one = sampler(n, batch, 0, 1, Partition::global_batches);
      EXPECT_EQ(one.steps(), (n + batch - 1) / batch);
      EXPECT_EQ(one.samples(), n);
      for (std::uint32_t epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(sorted(epoch_of(one, epoch)), all_of(n));
      for (std::uint32_t step = 0; step < one.steps(); ++step) {
        const std::uint32_t due = step + 1 < one.steps() ? batch : n - step * batch;
        EXPECT_EQ(one.batch(0, step).global_count, due);
      }
    }
  }
}

TEST(Sampler, ShardsHoldEverySampleOnceAndForGood) {
  for (const std::uint32_t n : counts) {
    for (const int workers : world_sizes) {
      Indices joined;
      for (int w = 0; w < workers; ++w) {
        Sampler worker = sampler(n, 5, w, workers, Partition::shards);
        const auto [begin, end] = share(n, w, workers);
        EXPECT_EQ(worker.samples(), end - begin);
        EXPECT_EQ(worker.total(), n);
        EXPECT_EQ(worker.steps(), (end - begin + 4) / 5);
        const Indices first = epoch_of(worker, 0);
        EXPECT_EQ(first.size(), end - begin);
        EXPECT_EQ(sorted(epoch_of(worker, 1)), sorted(first)) << "another shard in another epoch";
        joined.insert(joined.end(), first.begin(), first.end());
        for (std::uint32_t step = 0; step < worker.steps(); ++step) {
          const SampleBatch batch = worker.batch(0, step);
          EXPECT_EQ(batch.global_count, batch.indices.size());
        }
      }
      EXPECT_EQ(sorted(joined), all_of(n));
    }
  }
}

TEST(Sampler, OrdersDifferByEpochSeedAndWorker) {
  for (const Partition partition : {Partition::global_batches, Partition::shards}) {
    Sampler one = sampler(200, 10, 0, 1, partition), other = sampler(200, 10, 0, 1, partition, 6);
    std::set<Indices> orders;
    for (std::uint32_t epoch = 0; epoch < 10; ++epoch) {
      orders.insert(epoch_of(one, epoch));
      orders.insert(epoch_of(other, epoch));
    }
    orders.insert(all_of(200));
    EXPECT_EQ(orders.size(), 21u);
  }
  // Two workers' shards are reshuffled each by its own numbers: the same positions would show the same order twice.
  Sampler a = sampler(200, 10, 0, 2, Partition::shards), b = sampler(200, 10, 1, 2, Partition::shards);
  const auto moves = [](Sampler& worker) {
    const Indices before = epoch_of(worker, 0), after = epoch_of(worker, 1);
    Indices places;
    for (const std::uint32_t sample : after) {
      places.push_back(static_cast<std::uint32_t>(std::find(before.begin(), before.end(), sample) - before.begin()));
    }
    return places;
  };
  EXPECT_NE(moves(a), moves(b));
}

TEST(Sampler, DependsOnNothingButItsArguments) {
  Sampler a = sampler(50, 7, 1, 3, Partition::global_batches), b = a;
  const Indices late = a.batch(9, 2).indices;
  b.batch(0, 0);
  b.batch(4, 6);
  EXPECT_EQ(b.batch(9, 2).indices, late);
}

TEST(Sampler, KeepsTheOrderUnlessItShuffles) {
  Sampler all(10, {.batch = 4, .shuffle = false});
  EXPECT_EQ(all.batch(7, 1).indices, (Indices{4, 5, 6, 7}));
  Sampler shard(10, {.worker = 1, .workers = 2, .batch = 4, .partition = Partition::shards, .shuffle = false});
  EXPECT_EQ(shard.batch(7, 0).indices, (Indices{5, 6, 7, 8}));
  EXPECT_EQ(shard.batch(7, 1).indices, (Indices{9}));
}

TEST(Sampler, RefusesABatchOfNothingAndAStepTooFar) {
  EXPECT_THROW(Sampler(10, {.batch = 0}), Error);
  Sampler one(10, {.batch = 4});
  EXPECT_THROW(one.batch(0, 3), Error);
}

}  // namespace
}  // namespace ripieno
