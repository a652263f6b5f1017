// Which samples each worker takes in each step: pure functions of (seed, epoch, step, worker), which every worker
// computes by itself.
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
  global_batches,  ///< each step's batch is drawn from all samples, then divided: any number of workers does the same
                   ///< work
  shards,  ///< each worker has its own part of the samples (fixed unless sharing is "reshuffled") and its own pace, as
           ///< in federated and local training
  shards_in_step,  ///< as shards, but all workers take equally many steps per epoch, so that they can meet in each step
};

struct SamplerOptions {
  std::uint64_t seed = 0;
  int worker = 0, workers = 1;
  /// Samples per step: of all workers together (global_batches), or of one worker of average share (shards); >= 1.
  std::uint32_t batch = 0;
  Partition partition = Partition::global_batches;
  bool shuffle = true;  ///< false: in the data set's order, every epoch
  /// The workers' relative sizes, to which batches and shards are proportional: one positive number per worker; empty:
  /// all the same.
  std::vector<double> shares = {};
  std::string sharing = "even";         ///< how shards are made: PartitionOptions::name
  std::uint32_t shards_per_worker = 2;  ///< as in PartitionOptions
  double alpha = 0.5;                   ///< as in PartitionOptions
};

struct SampleBatch {
  std::vector<std::uint32_t> indices =
      {};                          ///< this worker's; may be empty in a batch smaller than the number of workers
  std::uint32_t global_count = 0;  ///< samples of all workers in this step (shards: of this worker)
};

class Sampler {
 public:
  /// For a data set of `samples`; sharing by "labels" and "dirichlet" needs its labels. Throws Error(usage) for a batch
  /// of 0, and as check_shares() and, with shards, share_out().
  Sampler(std::uint32_t samples, SamplerOptions options, std::span<const std::uint8_t> labels = {});

  const SamplerOptions& options() const { return options_; }
  /// Samples of the whole data set.
  std::uint32_t total() const { return total_; }
  /// Steps per epoch, rounded up. global_batches: total() / batch. shards: this worker's samples / its batch. Shares
  /// scale both (a batch is rounded to the nearest integer, at least 1), so with "even" sharing the workers' steps are
  /// nearly equal, and without shares they differ by at most one. shards_in_step: the largest number of any worker.
  std::uint32_t steps() const { return steps_[static_cast<std::size_t>(options_.worker)]; }
  /// Samples per epoch: all (global_batches), or this worker's (shards).
  std::uint32_t samples() const;
  /// Steps per epoch, by worker.
  const std::vector<std::uint32_t>& steps_of_all() const { return steps_; }
  /// Each worker's own samples per epoch, by worker: together total().
  std::vector<std::uint32_t> samples_of_all() const;
  /// Each worker's own samples in a step of any epoch, by worker; 0 if its epoch is already over.
  std::vector<std::uint32_t> counts_of_all(std::uint32_t step) const;
  /// global_batches: a fresh permutation each epoch; step s is its [s B, (s+1) B), cut short at the end, of which this
  /// worker takes its proportional() part. Every sample comes once per epoch, without padding or dropping, and the
  /// workers' parts joined are the batch that one worker would get. shards: this worker's shard, reshuffled each epoch
  /// (with sharing "reshuffled", its part of a fresh permutation of all) and cut into batches. shards_in_step:
  /// likewise, but step s of S takes [n s / S, n (s+1) / S) of its n samples, perhaps none. Throws Error(internal)
  /// unless step < steps().
  SampleBatch batch(std::uint32_t epoch, std::uint32_t step);

 private:
  /// global_batches: a step's batch in the order of all samples, [first, last).
  std::pair<std::uint32_t, std::uint32_t> global_range(std::uint32_t step) const;
  /// Shards: the part of its shard that a worker takes in a step.
  std::pair<std::uint32_t, std::uint32_t> shard_range(std::size_t worker, std::uint32_t step) const;
  const std::vector<std::uint32_t>& order(std::uint32_t epoch);

  SamplerOptions options_;
  std::uint32_t total_;
  std::vector<std::uint32_t> steps_;            // per epoch, by worker
  std::vector<std::uint32_t> sizes_, batches_;  // shards: samples and batch, by worker
  std::vector<std::uint32_t> shard_;            // shards: this worker's samples
  std::optional<std::uint32_t> epoch_;          // the epoch of `order_`
  std::vector<std::uint32_t> order_;
};

}  // namespace ripieno::data
