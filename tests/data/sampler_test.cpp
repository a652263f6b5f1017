#include "ripieno/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "files.h"

namespace ripieno::data {
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

// Workers that differ.

/// One sampler a worker.
std::vector<Sampler> all_workers(std::uint32_t n, SamplerOptions options, int workers,
                                 const std::vector<std::uint8_t>& labels = {}) {
  std::vector<Sampler> all;
  options.workers = workers;
  for (int w = 0; w < workers; ++w) {
    options.worker = w;
    all.emplace_back(n, options, labels);
  }
  return all;
}

std::vector<std::uint8_t> some_labels(std::uint32_t n) {
  std::vector<std::uint8_t> labels(n);
  for (std::uint32_t i = 0; i < n; ++i) labels[i] = static_cast<std::uint8_t>(i * i % 7);
  return labels;
}

std::vector<double> some_shares(int workers) {
  std::vector<double> shares;
  for (int w = 0; w < workers; ++w) shares.push_back(0.3 + (w * 5) % 7);
  return shares;
}

/// All ways to take batches and to share samples out, with and without shares.
std::vector<SamplerOptions> all_ways(int workers, std::uint32_t batch) {
  std::vector<SamplerOptions> ways;
  for (const auto partition : {Partition::global_batches, Partition::shards, Partition::shards_in_step}) {
    for (const char* sharing : {"even", "reshuffled", "labels", "dirichlet"}) {
      for (const bool uneven : {false, true}) {
        ways.push_back({.seed = 8, .batch = batch, .partition = partition, .sharing = sharing});
        if (uneven) ways.back().shares = some_shares(workers);
      }
    }
  }
  return ways;
}

TEST(Sampler, GlobalBatchesInProportionAreStillWhatOneWorkerGets) {
  for (const std::uint32_t n : counts) {
    for (const std::uint32_t batch : batches) {
      Sampler one = sampler(n, batch, 0, 1, Partition::global_batches);
      for (const int workers : world_sizes) {
        const auto shares = some_shares(workers);
        const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
        auto all = all_workers(n, {.seed = 5, .batch = batch, .shares = shares}, workers);
        for (std::uint32_t step = 0; step < one.steps(); ++step) {
          const SampleBatch whole = one.batch(3, step);
          Indices joined;
          for (std::size_t w = 0; w < all.size(); ++w) {
            ASSERT_EQ(all[w].steps(), one.steps());
            const SampleBatch part = all[w].batch(3, step);
            EXPECT_EQ(part.global_count, whole.indices.size());
            EXPECT_NEAR(static_cast<double>(part.indices.size()), whole.global_count * shares[w] / sum, 1 + 1e-9);
            joined.insert(joined.end(), part.indices.begin(), part.indices.end());
          }
          ASSERT_EQ(joined, whole.indices) << n << " samples, batch " << batch << ", " << workers << " workers";
        }
      }
    }
  }
}

TEST(Sampler, ReshuffledShardsAreOthersEachEpochAndPartsOfTheGlobalOrder) {
  for (const Partition partition : {Partition::shards, Partition::shards_in_step}) {
    const SamplerOptions way{.seed = 8, .batch = 10, .partition = partition, .shares = {1, 2}, .sharing = "reshuffled"};
    auto workers = all_workers(200, way, 2);
    Sampler global(200, {.seed = 8, .batch = 10});
    for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
      Indices joined = epoch_of(workers[0], epoch), second = epoch_of(workers[1], epoch);
      EXPECT_NE(sorted(joined), sorted(epoch_of(workers[0], epoch + 1)));
      joined.insert(joined.end(), second.begin(), second.end());
      EXPECT_EQ(joined, epoch_of(global, epoch));
    }
  }
}

TEST(Sampler, EveryWayTakesEverySampleOnceAnEpochAndStatesItsCounts) {
  for (const std::uint32_t n : {29u, 100u, 257u}) {
    const auto labels = some_labels(n);
    for (const int workers : {1, 2, 3, 5, 13}) {
      for (const SamplerOptions& way : all_ways(workers, 8)) {
        SCOPED_TRACE(text(n, " samples, ", workers, " workers, partition ", static_cast<int>(way.partition), ", ",
                          way.sharing, ", shares ", way.shares.size()));
        auto all = all_workers(n, way, workers, labels);
        const auto steps = all[0].steps_of_all(), samples = all[0].samples_of_all();
        for (std::uint32_t epoch : {0u, 1u, 6u}) {
          Indices joined;
          for (std::size_t w = 0; w < all.size(); ++w) {
            const Indices own = epoch_of(all[w], epoch);
            EXPECT_EQ(own.size(), samples[w]);
            joined.insert(joined.end(), own.begin(), own.end());
          }
          ASSERT_EQ(sorted(joined), all_of(n));
        }
        for (std::size_t w = 0; w < all.size(); ++w) {
          EXPECT_EQ(all[w].steps(), steps[w]);
          EXPECT_EQ(all[w].steps_of_all(), steps);
          EXPECT_EQ(all[w].samples_of_all(), samples);
          EXPECT_EQ(all[w].samples(), way.partition == Partition::global_batches ? n : samples[w]);
          for (std::uint32_t step = 0; step < steps[w] + 2; ++step) {
            const std::uint32_t stated = all[0].counts_of_all(step)[w];
            EXPECT_EQ(stated, step < steps[w] ? all[w].batch(2, step).indices.size() : 0);
          }
        }
      }
    }
  }
}

TEST(Sampler, ShardsInStepAgreeOnStepsAndCounts) {
  for (const std::uint32_t n : {1u, 29u, 257u}) {
    for (const int workers : world_sizes) {
      for (SamplerOptions way : all_ways(workers, 8)) {
        if (way.partition != Partition::shards_in_step || way.sharing != "even") continue;
        auto all = all_workers(n, way, workers);
        way.partition = Partition::shards;
        auto own_pace = all_workers(n, way, workers);
        std::uint32_t most = 0;
        for (std::size_t w = 0; w < all.size(); ++w) {
          most = std::max(most, own_pace[w].steps());
          // The same shard, in the same order, in more and smaller batches.
          EXPECT_EQ(epoch_of(all[w], 4), epoch_of(own_pace[w], 4));
        }
        for (std::uint32_t step = 0; step < most; ++step) {
          std::uint32_t taken = 0;
          for (Sampler& worker : all) {
            ASSERT_EQ(worker.steps(), most);
            const SampleBatch batch = worker.batch(4, step);
            taken += static_cast<std::uint32_t>(batch.indices.size());
            EXPECT_EQ(batch.global_count, all[0].batch(4, step).global_count);
            const std::uint32_t mine = worker.samples();
            EXPECT_NEAR(static_cast<double>(batch.indices.size()), static_cast<double>(mine) / most, 1);
          }
          EXPECT_EQ(all[0].batch(4, step).global_count, taken);
        }
      }
    }
  }
}

TEST(Sampler, AShardInStepMayHaveNothingInAStep) {
  // Shards of 1, 1 and 2 of 4 samples: two steps, in one of which the small ones have nothing.
  auto all = all_workers(4, {.batch = 1, .partition = Partition::shards_in_step}, 3);
  EXPECT_EQ(all[0].steps_of_all(), (Indices{2, 2, 2}));
  EXPECT_EQ(all[0].samples_of_all(), (Indices{1, 1, 2}));
  EXPECT_EQ(all[0].counts_of_all(0), (Indices{0, 0, 1}));
  EXPECT_EQ(all[0].counts_of_all(1), (Indices{1, 1, 1}));
  EXPECT_TRUE(all[0].batch(0, 0).indices.empty());
  EXPECT_EQ(all[0].batch(0, 0).global_count, 1u);
}

TEST(Sampler, ShardsAndBatchesInProportionTakeEquallyManySteps) {
  for (const auto partition : {Partition::shards, Partition::shards_in_step}) {
    const Sampler one(700, {.workers = 3, .batch = 20, .partition = partition, .shares = {1, 2, 4}});
    EXPECT_EQ(one.samples_of_all(), (Indices{100, 200, 400}));
    // Batches of 60 / 7, 120 / 7 and 240 / 7, rounded: 9, 17 and 34.
    EXPECT_EQ(one.steps_of_all(), (Indices{12, 12, 12}));
    if (partition == Partition::shards) {
      EXPECT_EQ(one.counts_of_all(0), (Indices{9, 17, 34}));
    }
  }
  const Sampler tiny(70, {.workers = 2, .batch = 1, .partition = Partition::shards, .shares = {1, 9}});
  EXPECT_EQ(tiny.counts_of_all(0), (Indices{1, 2})) << "a batch of a fraction of a sample";
}

TEST(Sampler, SharesThatAreEqualChangeNothing) {
  for (const auto partition : {Partition::global_batches, Partition::shards, Partition::shards_in_step}) {
    auto plain = all_workers(103, {.batch = 10, .partition = partition}, 10);
    auto equal = all_workers(103, {.batch = 10, .partition = partition, .shares = std::vector<double>(10, 0.1)}, 10);
    for (std::size_t w = 0; w < plain.size(); ++w) {
      ASSERT_EQ(plain[w].steps(), equal[w].steps());
      for (std::uint32_t step = 0; step < plain[w].steps(); ++step) {
        EXPECT_EQ(plain[w].batch(1, step).indices, equal[w].batch(1, step).indices);
      }
    }
  }
}

TEST(Sampler, RefusesSharesAndSharingsThatCannotBe) {
  expect_error(ErrorKind::usage, {"shares", "3 numbers", "2 workers"}, [] {
    Sampler(10, {.workers = 2, .batch = 4, .shares = {1, 2, 3}});
  });
  for (const auto partition : {Partition::global_batches, Partition::shards}) {
    expect_error(ErrorKind::usage, {"shares", "-0.5", "worker 1"}, [&] {
      Sampler(10, {.workers = 2, .batch = 4, .partition = partition, .shares = {1, -0.5}});
    });
    expect_error(ErrorKind::usage, {"shares", "0 for worker 0"}, [&] {
      Sampler(10, {.workers = 2, .batch = 4, .partition = partition, .shares = {0, 1}});
    });
  }
  const SamplerOptions halves = {.batch = 4, .partition = Partition::shards, .sharing = "halves"};
  expect_error(ErrorKind::usage, {"partition", "\"halves\"", "even, reshuffled, labels, dirichlet"},
               [&] { Sampler(10, halves); });
  const SamplerOptions labels = {.batch = 4, .partition = Partition::shards_in_step, .sharing = "labels"};
  expect_error(ErrorKind::usage, {"\"labels\"", "10 samples", "has 0"}, [&] { Sampler(10, labels); });
  expect_error(ErrorKind::internal, {"worker 2 of 2"}, [] { Sampler(10, {.worker = 2, .workers = 2, .batch = 4}); });
}

}  // namespace
}  // namespace ripieno::data
