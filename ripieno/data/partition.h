// Partitions samples among workers: evenly, by label or by a Dirichlet distribution, in proportion to the workers'
// shares. Pure functions of their arguments: every worker computes them by itself.
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

/// [begin, end) of the `worker`-th of `workers` contiguous parts of 0 .. n-1; parts differ by at most one sample, and
/// some are empty if n < workers. Throws Error(internal) unless 0 <= worker < workers.
std::pair<std::uint32_t, std::uint32_t> share(std::uint32_t n, int worker, int workers);

/// Throws Error(usage) unless `shares` is empty or has one number from 1e-6 to 1e6 for each worker.
void check_shares(std::span<const double> shares, int workers);

/// The bounds of contiguous parts of 0 .. n-1 in proportion to `shares`, part w = [bounds[w], bounds[w+1]): each
/// differs from its exact size by less than one or by one, and together they have n. Without shares, or with equal
/// ones: as share(). Shares are >= 0 with a sum > 0; throws Error(internal) unless there are none or one per worker.
std::vector<std::uint32_t> proportional(std::uint32_t n, int workers, std::span<const double> shares);

struct PartitionOptions {
  std::string name = "even";            ///< even, reshuffled, labels or dirichlet: see share_out
  std::uint32_t shards_per_worker = 2;  ///< labels: pieces per worker, >= 1
  double alpha = 0.5;  ///< dirichlet: 1e-6 (each class at one worker) .. 1e6 (all classes spread alike)
  std::uint64_t seed = 0;
  bool shuffle = true;              ///< false: step 1 keeps the data set's order
  std::vector<double> shares = {};  ///< the workers' relative sizes; empty: all the same
};

/// The names that PartitionOptions takes.
std::span<const char* const> partition_names();

/// Whether that partition depends on labels.
bool needs_labels(std::string_view name);

/// Each worker's samples; every sample of 0 .. samples-1 is at exactly one worker.
///
///   1. Put all samples in a random order.
///   2. even: cut the order into one part per worker. reshuffled: the same, and the sampler deals the samples anew in
///      each epoch. labels: sort the order by label, cut it into workers x shards_per_worker pieces, and deal these to
///      the workers at random, shards_per_worker to each. dirichlet: for each class, draw the workers' proportions from
///      Dirichlet(alpha) and cut the class's samples in these proportions.
///   3. dirichlet: a worker without samples takes one from the largest shard.
///
/// Sizes are in proportion to the shares: within one sample for even, within shards_per_worker for labels, on average
/// for dirichlet, whose parameters are alpha x workers x share / (sum of shares). `labels` has one label per sample if
/// needs_labels(). All but dirichlet are the same on every machine; dirichlet uses logarithms, so it is the same where
/// the C libraries' logarithms agree to about 12 digits.
/// Throws Error(usage) for an unknown name, for options and shares out of range, for labels of another length, and if
/// there are fewer samples than pieces (labels) or workers (dirichlet).
std::vector<std::vector<std::uint32_t>> share_out(const PartitionOptions& options, std::uint32_t samples,
                                                  std::span<const std::uint8_t> labels, int workers);

/// All samples' labels, in order. Reads the whole set, which bytes_read() counts. Throws as Dataset::read.
std::vector<std::uint8_t> labels_of(Dataset& dataset);

/// The logarithm of a gamma variate of shape a > 0 and scale 1; for small a the variate itself would underflow.
double log_gamma_variate(Random& random, double a);

}  // namespace ripieno::data
