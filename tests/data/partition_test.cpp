#include "ripieno/data/partition.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "files.h"

namespace ripieno::data {
namespace {

using Indices = std::vector<std::uint32_t>;
using Shards = std::vector<Indices>;

/// `each` samples of every one of `classes` labels, mixed.
std::vector<std::uint8_t> balanced(std::uint32_t classes, std::uint32_t each) {
  std::vector<std::uint8_t> labels;
  for (const std::uint32_t i : Random(3).permutation(classes * each)) {
    labels.push_back(static_cast<std::uint8_t>(i % classes));
  }
  return labels;
}

Shards shared(const PartitionOptions& options, const std::vector<std::uint8_t>& labels, int workers) {
  return share_out(options, static_cast<std::uint32_t>(labels.size()), labels, workers);
}

void expect_every_sample_once(const Shards& shards, std::uint32_t samples) {
  std::vector<int> seen(samples, 0);
  for (const Indices& shard : shards) {
    for (const std::uint32_t sample : shard) {
      ASSERT_LT(sample, samples);
      ++seen[sample];
    }
  }
  EXPECT_EQ(seen, std::vector<int>(samples, 1));
}

std::vector<std::size_t> sizes(const Shards& shards) {
  std::vector<std::size_t> all;
  for (const Indices& shard : shards) all.push_back(shard.size());
  return all;
}

/// Mean over the workers of the total variation between their labels and all labels: 0 where all are alike, and
/// 1 - 1 / classes where each worker has one label of equally many.
double skew(const Shards& shards, const std::vector<std::uint8_t>& labels, std::size_t classes) {
  double sum = 0;
  for (const Indices& shard : shards) {
    std::vector<double> part(classes, 0), all(classes, 0);
    for (const std::uint32_t i : shard) part[labels[i]] += 1.0 / static_cast<double>(shard.size());
    for (const std::uint8_t label : labels) all[label] += 1.0 / static_cast<double>(labels.size());
    for (std::size_t c = 0; c < classes; ++c) sum += std::abs(part[c] - all[c]) / 2;
  }
  return sum / static_cast<double>(shards.size());
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

TEST(Proportional, CutsEachPartToWithinOneOfItsSize) {
  const std::vector<std::vector<double>> all = {
      {1}, {1, 2}, {1, 2, 4}, {0.1, 0.2, 0.3, 0.4}, {1e-6, 1e6}, {3, 1, 1, 1, 1e-3}};
  for (const auto& shares : all) {
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (const std::uint32_t n : {0u, 1u, 2u, 7u, 64u, 1000u, 60001u, 0xFFFFFFFFu}) {
      const auto bounds = proportional(n, static_cast<int>(shares.size()), shares);
      ASSERT_EQ(bounds.size(), shares.size() + 1);
      EXPECT_EQ(bounds.front(), 0u);
      EXPECT_EQ(bounds.back(), n);
      for (std::size_t w = 0; w < shares.size(); ++w) {
        ASSERT_LE(bounds[w], bounds[w + 1]);
        EXPECT_NEAR(bounds[w + 1] - bounds[w], n * shares[w] / sum, 1.01);
      }
    }
  }
  EXPECT_EQ(proportional(10, 4, all[3]), (Indices{0, 1, 3, 6, 10}));
  EXPECT_EQ(proportional(4, 2, std::vector<double>{0.3, 0.1}), (Indices{0, 3, 4})) << "whole numbers stay whole";
  EXPECT_EQ(proportional(10, 3, {}), (Indices{0, 3, 6, 10}));
  EXPECT_EQ(proportional(10, 10, std::vector<double>(10, 0.1)), proportional(10, 10, {}));
  expect_error(ErrorKind::internal, {"2 shares", "3 workers"}, [] { proportional(5, 3, std::vector<double>{1, 2}); });
}

TEST(ShareOut, HoldsEverySampleOnceInEveryWay) {
  for (const std::uint32_t n : {40u, 41u, 257u}) {
    std::vector<std::uint8_t> labels(n);
    for (std::uint32_t i = 0; i < n; ++i) labels[i] = static_cast<std::uint8_t>(i % 11 < 6 ? 2 : i % 9);
    for (const int workers : {1, 2, 3, 7, 20}) {
      for (const char* const name : partition_names()) {
        for (const bool uneven : {false, true}) {
          PartitionOptions options = {.name = name, .seed = 1};
          for (int w = 0; w < workers && uneven; ++w) options.shares.push_back(1 + w % 3);
          const Shards shards = shared(options, labels, workers);
          ASSERT_EQ(shards.size(), static_cast<std::size_t>(workers));
          expect_every_sample_once(shards, n);
          EXPECT_EQ(shared(options, labels, workers), shards) << "not the same twice";
          if (workers == 1) continue;
          options.seed = 2;
          EXPECT_NE(shared(options, labels, workers), shards) << name << " does not depend on the seed";
          // Without shuffling, what depends on it is what the workers are dealt.
          options.shuffle = false;
          const Shards dealt = shared(options, labels, workers);
          options.seed = 3;
          EXPECT_EQ(shared(options, labels, workers) == dealt, !needs_labels(options.name)) << name;
        }
      }
    }
  }
}

TEST(ShareOut, EvenIsACutPermutation) {
  for (const int workers : {1, 3, 4}) {
    const Shards shards = share_out({.seed = 5}, 50, {}, workers);
    const Indices order = Random(5 ^ 0x736861726473).permutation(50);
    Indices joined;
    for (int w = 0; w < workers; ++w) {
      const Indices& shard = shards[static_cast<std::size_t>(w)];
      const auto [begin, end] = share(50, w, workers);
      EXPECT_EQ(shard.size(), end - begin);
      joined.insert(joined.end(), shard.begin(), shard.end());
    }
    EXPECT_EQ(joined, order);
  }
  EXPECT_EQ(share_out({.shuffle = false}, 5, {}, 2), (Shards{{0, 1}, {2, 3, 4}}));
  EXPECT_EQ(sizes(share_out({.shares = {1, 2, 4}}, 70, {}, 3)), (std::vector<std::size_t>{10, 20, 40}));
  EXPECT_EQ(sizes(share_out({}, 1, {}, 3)), (std::vector<std::size_t>{0, 0, 1}));
}

TEST(ShareOut, LabelsGivesEachWorkerFewOfThem) {
  const auto labels = balanced(10, 60);
  for (const std::uint32_t pieces : {1u, 2u, 3u}) {
    for (const int workers : {5, 10, 20}) {
      const std::uint32_t all = pieces * static_cast<std::uint32_t>(workers);
      // A piece is a part of one class, some whole classes, or it straddles two classes.
      const std::uint32_t labels_a_piece = all % 10 == 0 ? 1 : 10 % all == 0 ? 10 / all : 10 / all + 2;
      std::set<std::set<int>> kinds;
      for (const Indices& shard : shared({.name = "labels", .shards_per_worker = pieces}, labels, workers)) {
        std::set<int> own;
        for (const std::uint32_t i : shard) own.insert(labels[i]);
        EXPECT_LE(own.size(), pieces * labels_a_piece) << workers << " workers";
        EXPECT_EQ(shard.size(), 600u / static_cast<unsigned>(workers));
        kinds.insert(own);
      }
      EXPECT_GT(kinds.size(), 2u);
    }
  }
  // Two pieces a worker, so the number of labels is 1 or 2, and dealt at random both occur.
  std::set<std::size_t> labels_seen;
  for (const Indices& shard : shared({.name = "labels"}, labels, 20)) {
    std::set<int> own;
    for (const std::uint32_t i : shard) own.insert(labels[i]);
    labels_seen.insert(own.size());
  }
  EXPECT_LE(*labels_seen.rbegin(), 2u);
  EXPECT_GT(skew(shared({.name = "labels"}, labels, 20), labels, 10), 0.75);
  EXPECT_LT(skew(shared({}, labels, 20), labels, 10), 0.3);
}

TEST(ShareOut, LabelsAlongAShareHasLargerPieces) {
  const auto labels = balanced(10, 70);
  const Shards shards = shared({.name = "labels", .shares = {1, 2, 4}}, labels, 3);
  EXPECT_NEAR(static_cast<double>(shards[0].size()), 100, 2);
  EXPECT_NEAR(static_cast<double>(shards[1].size()), 200, 2);
  EXPECT_NEAR(static_cast<double>(shards[2].size()), 400, 2);
}

TEST(ShareOut, DirichletIsSkewedAsAlphaSays) {
  const auto labels = balanced(10, 500);
  double last = 1;
  for (const double alpha : {0.01, 0.1, 1.0, 10.0, 1000.0}) {
    const double now = skew(shared({.name = "dirichlet", .alpha = alpha, .seed = 4}, labels, 8), labels, 10);
    EXPECT_LT(now, last) << "alpha " << alpha;
    last = now;
  }
  const Shards even = shared({.name = "dirichlet", .alpha = 1e6}, labels, 8);
  EXPECT_LT(skew(even, labels, 10), 0.01);
  for (const Indices& shard : even) EXPECT_NEAR(static_cast<double>(shard.size()), 625, 15);
  // At the other end each class is at one worker.
  const Shards extreme = shared({.name = "dirichlet", .alpha = 1e-6}, labels, 2);
  std::vector<std::set<int>> own(2);
  for (std::size_t w = 0; w < 2; ++w) {
    for (const std::uint32_t i : extreme[w]) own[w].insert(labels[i]);
  }
  EXPECT_EQ(own[0].size() + own[1].size(), 10u);
}

TEST(ShareOut, DirichletFollowsTheShares) {
  const auto labels = balanced(10, 700);
  const auto shards = shared({.name = "dirichlet", .alpha = 1e5, .shares = {1, 2, 4}}, labels, 3);
  EXPECT_NEAR(static_cast<double>(shards[0].size()), 1000, 50);
  EXPECT_NEAR(static_cast<double>(shards[1].size()), 2000, 50);
  EXPECT_NEAR(static_cast<double>(shards[2].size()), 4000, 50);
}

TEST(ShareOut, DirichletLeavesNoWorkerWithNothing) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    for (const double alpha : {1e-6, 0.05, 1.0}) {
      for (const int workers : {2, 9, 12}) {
        const auto labels = balanced(3, 4);
        const Shards shards = shared({.name = "dirichlet", .alpha = alpha, .seed = seed}, labels, workers);
        expect_every_sample_once(shards, 12);
        for (const Indices& shard : shards) EXPECT_GE(shard.size(), 1u);
      }
    }
  }
}

TEST(ShareOut, RefusesWhatCannotBe) {
  const auto labels = balanced(2, 5);
  const auto refused = [&](const PartitionOptions& options, int workers, const std::vector<std::string>& parts) {
    expect_error(ErrorKind::usage, parts, [&] { shared(options, labels, workers); });
  };
  refused({.name = "dirichelt"}, 2, {"partition", "\"dirichelt\"", "even, reshuffled, labels, dirichlet"});
  for (const char* const name : partition_names()) {
    refused({.name = name, .shares = {1, 2}}, 3, {"shares", "2 numbers", "3 workers"});
    refused({.name = name, .shares = {1, 0}}, 2, {"shares", "0 for worker 1"});
    refused({.name = name, .shares = {-1, 2}}, 2, {"shares", "-1 for worker 0"});
    refused({.name = name, .shares = {1, std::nan("")}}, 2, {"shares", "nan"});
    refused({.name = name, .shares = {1, std::numeric_limits<double>::infinity()}}, 2, {"shares", "inf"});
  }
  refused({.name = "labels", .shards_per_worker = 0}, 2, {"shards_per_worker = 0"});
  refused({.name = "labels", .shards_per_worker = 4}, 3, {"shards_per_worker = 4", "12 pieces", "10 samples"});
  refused({.name = "labels", .shards_per_worker = 0xFFFFFFFF}, 3, {"4294967295", "12884901885 pieces"});
  for (const double alpha : {0.0, -1.0, 1e7, std::nan("")}) {
    refused({.name = "dirichlet", .alpha = alpha}, 3, {"alpha", text(alpha), "1e-06 to 1e+06"});
  }
  refused({.name = "dirichlet"}, 11, {"10 samples", "11 workers"});
  for (const char* const name : {"labels", "dirichlet"}) {
    expect_error(ErrorKind::usage, {name, "11 samples", "has 10"}, [&] { share_out({.name = name}, 11, labels, 2); });
  }
}

TEST(LabelsOf, AreThoseThatReadingGives) {
  const auto set = open_dataset("shapes", Split::train, {.train_samples = 30});
  const auto labels = labels_of(*set);
  ASSERT_EQ(labels.size(), 30u);
  std::vector<std::uint8_t> image(3072);
  for (std::uint32_t i = 0; i < 30; ++i) EXPECT_EQ(labels[i], set->read(i, image));
  EXPECT_GT(std::set<int>(labels.begin(), labels.end()).size(), 3u);
}

/// Mean and variance of a gamma variate are its shape; the mean of its logarithm is the digamma function of it.
TEST(LogGammaVariate, HasTheMomentsOfItsShape) {
  constexpr int draws = 200'000;
  for (const double a : {0.1, 0.5, 1.0, 2.5, 40.0}) {
    Random random(9);
    double sum = 0, squares = 0, logs = 0;
    for (int i = 0; i < draws; ++i) {
      const double log = log_gamma_variate(random, a), x = std::exp(log);
      sum += x;
      squares += (x - a) * (x - a);
      logs += log;
    }
    EXPECT_NEAR(sum / draws, a, 5 * std::sqrt(a / draws));
    EXPECT_NEAR(squares / draws, a, 5 * std::sqrt((2 * a * a + 6 * a) / draws));  // of variance 2 a^2 + 6 a
    const double step = 1e-5;
    const double digamma = (std::lgamma(a + step) - std::lgamma(a - step)) / (2 * step);
    const double trigamma =
        (std::lgamma(a + 1e-3) - 2 * std::lgamma(a) + std::lgamma(a - 1e-3)) / 1e-6;  // the logarithm's variance
    EXPECT_NEAR(logs / draws, digamma, 5 * std::sqrt(trigamma / draws)) << "shape " << a;
  }
  Random random(9);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(std::isfinite(log_gamma_variate(random, 1e-12)));
}

}  // namespace
}  // namespace ripieno::data
