// Which samples each worker takes in each step: pure functions of (seed, epoch, step, worker), so no worker asks
// another.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace ripieno {

/// [begin, end) of the `worker`-th of `workers` contiguous parts of 0 .. n-1; parts differ by at most one, and some are
/// empty when n < workers. Throws Error(internal) unless 0 <= worker < workers.
std::pair<std::uint32_t, std::uint32_t> share(std::uint32_t n, int worker, int workers);

enum class Partition {
  global_batches,  ///< each step's batch is drawn from all samples, then shared: any number of workers does the same
                   ///< work
  shards,          ///< each worker keeps a fixed part of the samples: what federated and local training have
};

struct SamplerOptions {
  std::uint64_t seed = 0;
  int worker = 0, workers = 1;
  std::uint32_t batch = 0;  ///< samples a step: of all workers together (global_batches), or of this one (shards); >= 1
  Partition partition = Partition::global_batches;
  bool shuffle = true;  ///< false: in the data set's order, every epoch
};

struct SampleBatch {
  std::vector<std::uint32_t> indices =
      {};                          ///< this worker's; may be empty in a batch smaller than the number of workers
  std::uint32_t global_count = 0;  ///< samples of all workers in this step (shards: of this one)
};

class Sampler {
 public:
  /// Over a data set of `samples`. Throws Error(usage) for a batch of 0.
  Sampler(std::uint32_t samples, SamplerOptions options);

  const SamplerOptions& options() const { return options_; }
  /// Samples of the whole data set.
  std::uint32_t total() const { return total_; }
  /// Steps an epoch: samples() / batch, rounded up. Shards' sizes differ by at most one sample, so their steps by one.
  std::uint32_t steps() const;
  /// Samples an epoch: all (global_batches), or this worker's (shards).
  std::uint32_t samples() const { return samples_; }
  /// global_batches: a fresh permutation each epoch; step s is its [s B, (s+1) B), cut short at the end, of which this
  /// worker takes its share(). Every sample once an epoch, nothing padded or dropped, and the workers' parts one after
  /// the other are what one worker would get. shards: one permutation for good, this worker's share() of it, reshuffled
  /// each epoch and cut into batches. Throws Error(internal) unless step < steps().
  SampleBatch batch(std::uint32_t epoch, std::uint32_t step);

 private:
  const std::vector<std::uint32_t>& order(std::uint32_t epoch);

  SamplerOptions options_;
  std::uint32_t total_, samples_;
  std::vector<std::uint32_t> shard_;    // shards: this worker's samples
  std::optional<std::uint32_t> epoch_;  // whose order is kept
  std::vector<std::uint32_t> order_;
};

}  // namespace ripieno
