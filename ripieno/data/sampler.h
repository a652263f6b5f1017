// Which samples each worker takes in each step: pure functions of (seed, epoch, step, worker), so no worker asks
// another.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ripieno/data/partition.h"

namespace ripieno::data {

enum class Partition {
  global_batches,  ///< each step's batch is drawn from all samples, then shared: any number of workers does the same
                   ///< work
  shards,  ///< each worker has a part of the samples of its own, for good unless sharing is "reshuffled", at its
           ///< own pace: what federated and local training have
  shards_in_step,  ///< as shards, but all workers take equally many steps an epoch, so that they can meet in each
};

struct SamplerOptions {
  std::uint64_t seed = 0;
  int worker = 0, workers = 1;
  /// Samples a step: of all workers together (global_batches), or of one worker of average share (shards); >= 1.
  std::uint32_t batch = 0;
  Partition partition = Partition::global_batches;
  bool shuffle = true;  ///< false: in the data set's order, every epoch
  /// The workers' relative sizes, for batches and shards in proportion: one positive number a worker; none: all alike.
  std::vector<double> shares = {};
  std::string sharing = "even";         ///< which samples a shard has: PartitionOptions::name
  std::uint32_t shards_per_worker = 2;  ///< as PartitionOptions has it
  double alpha = 0.5;                   ///< as PartitionOptions has it
};

struct SampleBatch {
  std::vector<std::uint32_t> indices =
      {};                          ///< this worker's; may be empty in a batch smaller than the number of workers
  std::uint32_t global_count = 0;  ///< samples of all workers in this step (shards: of this one)
};

class Sampler {
 public:
  /// Over a data set of `samples`, whose labels sharing by "labels" and "dirichlet" needs. Throws Error(usage) for a
  /// batch of 0, what check_shares() and, with shards, share_out() throw.
  Sampler(std::uint32_t samples, SamplerOptions options, std::span<const std::uint8_t> labels = {});

  const SamplerOptions& options() const { return options_; }
  /// Samples of the whole data set.
  std::uint32_t total() const { return total_; }
  /// Steps an epoch, rounded up. global_batches: total() / batch. shards: this worker's samples / its batch. Shares
  /// scale both (a batch is the nearest whole number, at least 1), so with "even" sharing the workers' steps are nearly
  /// equal, and without shares they differ by at most one. shards_in_step: the most of any worker's.
  std::uint32_t steps() const { return steps_[static_cast<std::size_t>(options_.worker)]; }
  /// Samples an epoch: all (global_batches), or this worker's (shards).
  std::uint32_t samples() const;
  /// Each worker's steps an epoch, by worker.
  const std::vector<std::uint32_t>& steps_of_all() const { return steps_; }
  /// Each worker's own samples an epoch, by worker: together total().
  std::vector<std::uint32_t> samples_of_all() const;
  /// Each worker's own samples in a step of any epoch, by worker; 0 where its epoch is over already.
  std::vector<std::uint32_t> counts_of_all(std::uint32_t step) const;
  /// global_batches: a fresh permutation each epoch; step s is its [s B, (s+1) B), cut short at the end, of which this
  /// worker takes its proportional() part. Every sample once an epoch, nothing padded or dropped, and the workers'
  /// parts one after the other are what one worker would get. shards: this worker's shard, reshuffled each epoch (with
  /// sharing "reshuffled", its part of a fresh permutation of all) and cut into batches. shards_in_step: likewise, but
  /// step s of S takes [n s / S, n (s+1) / S) of its n samples, which may be none. Throws Error(internal) unless step <
  /// steps().
  SampleBatch batch(std::uint32_t epoch, std::uint32_t step);

 private:
  /// global_batches: a step's batch in the order of all samples, [first, last).
  std::pair<std::uint32_t, std::uint32_t> global_range(std::uint32_t step) const;
  /// Shards: what a worker takes of its shard in a step of its own.
  std::pair<std::uint32_t, std::uint32_t> shard_range(std::size_t worker, std::uint32_t step) const;
  const std::vector<std::uint32_t>& order(std::uint32_t epoch);

  SamplerOptions options_;
  std::uint32_t total_;
  std::vector<std::uint32_t> steps_;            // an epoch, by worker
  std::vector<std::uint32_t> sizes_, batches_;  // shards: samples of each, and its batch, by worker
  std::vector<std::uint32_t> shard_;            // shards: this worker's samples
  std::optional<std::uint32_t> epoch_;          // whose order is kept
  std::vector<std::uint32_t> order_;
};

}  // namespace ripieno::data
