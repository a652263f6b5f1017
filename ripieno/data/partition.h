// How samples are shared out among workers: evenly, by label or by Dirichlet's distribution, in proportion to
// the workers' shares. Pure functions of their arguments, so no worker asks another.
//
// Sources: McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017 (labels);
// Hsu, Qi and Brown, "Measuring the effects of non-identical data distribution for federated visual classification",
// 2019 (Dirichlet's alpha as the measure of skew), drawn class by class as in Yurochkin et al., "Bayesian nonparametric
// federated learning of neural networks", 2019; Marsaglia and Tsang, "A simple method for generating gamma variables",
// 2000.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ripieno/core/random.h"
#include "ripieno/data/dataset.h"

namespace ripieno::data {

/// [begin, end) of the `worker`-th of `workers` contiguous parts of 0 .. n-1; parts differ by at most one, and some are
/// empty when n < workers. Throws Error(internal) unless 0 <= worker < workers.
std::pair<std::uint32_t, std::uint32_t> share(std::uint32_t n, int worker, int workers);

/// Throws Error(usage) unless `shares` is empty or has one number from 1e-6 to 1e6 for each worker.
void check_shares(std::span<const double> shares, int workers);

/// The bounds of contiguous parts of 0 .. n-1 in proportion to `shares`, part w = [bounds[w], bounds[w+1]): each within
/// one of its exact size, all together n. No shares, or equal ones: as share(). Numbers >= 0 whose sum is > 0; throws
/// Error(internal) unless there are none or one a worker.
std::vector<std::uint32_t> proportional(std::uint32_t n, int workers, std::span<const double> shares);

struct PartitionOptions {
  std::string name = "even";            ///< even, reshuffled, labels or dirichlet: see share_out
  std::uint32_t shards_per_worker = 2;  ///< labels: pieces a worker, >= 1
  double alpha = 0.5;                   ///< dirichlet: 1e-6 (each class at one worker) .. 1e6 (all alike)
  std::uint64_t seed = 0;
  bool shuffle = true;              ///< false: step 1 keeps the data set's order
  std::vector<double> shares = {};  ///< the workers' relative sizes; none: all alike
};

/// The names that PartitionOptions takes.
std::span<const char* const> partition_names();

/// Whether it goes by the samples' labels.
bool needs_labels(std::string_view name);

/// Each worker's samples, every one of 0 .. samples-1 at exactly one worker.
///
///   1. Put all samples in a random order.
///   2. even: cut it into one part a worker. reshuffled: the same; whoever takes the samples deals them anew each
///      epoch. labels: sort it by label, deal workers x shards_per_worker pieces to the workers at random,
///      shards_per_worker to each, and cut it into these pieces. dirichlet: for each class, draw the workers'
///      proportions from Dirichlet(alpha) and cut the class's samples so.
///   3. dirichlet: a worker that got nothing takes one sample of the largest shard.
///
/// Sizes are in proportion to the shares: within one sample for even, within shards_per_worker for labels, on average
/// for dirichlet, whose parameters are alpha x workers x share / (sum of shares). `labels` has one label a sample where
/// needs_labels(). All but dirichlet are the same on every machine; dirichlet takes logarithms, so it is where the C
/// libraries' agree to about 12 digits.
/// Throws Error(usage) for another name, for options and shares out of range, for labels of another length, and when
/// there are fewer samples than pieces (labels) or workers (dirichlet).
std::vector<std::vector<std::uint32_t>> share_out(const PartitionOptions& options, std::uint32_t samples,
                                                  std::span<const std::uint8_t> labels, int workers);

/// All samples' labels, in order. Reads the whole set, which bytes_read() then counts, and throws what Dataset::read
/// throws.
std::vector<std::uint8_t> labels_of(Dataset& dataset);

/// The logarithm of a gamma variate of shape a > 0 and scale 1, which itself would underflow for small a.
double log_gamma_variate(Random& random, double a);

}  // namespace ripieno::data
