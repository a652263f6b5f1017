#include "ripieno/data/sampler.h"

#include <algorithm>
#include <numeric>

#include "ripieno/core/error.h"
#include "ripieno/core/random.h"

namespace ripieno {
namespace {

// What a seed is used for, so that no two uses share their random numbers.
constexpr std::uint64_t for_epochs = 0x65706F636873;  // "epochs"
constexpr std::uint64_t for_shards = 0x736861726473;  // "shards"

std::vector<std::uint32_t> ascending(std::uint32_t n) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

}  // namespace

std::pair<std::uint32_t, std::uint32_t> share(std::uint32_t n, int worker, int workers) {
  require(worker >= 0 && worker < workers, "worker ", worker, " of ", workers);
  const auto bound = [&](int w) {
    return static_cast<std::uint32_t>(std::uint64_t{n} * static_cast<std::uint64_t>(w) /
                                      static_cast<std::uint64_t>(workers));
  };
  return {bound(worker), bound(worker + 1)};
}

Sampler::Sampler(std::uint32_t samples, SamplerOptions options)
    : options_(options), total_(samples), samples_(samples) {
  if (options_.batch == 0) fail(ErrorKind::usage, "a batch of 0 samples; ask for at least 1");
  const auto [begin, end] = share(samples, options_.worker, options_.workers);
  if (options_.partition == Partition::shards) {
    samples_ = end - begin;
    const auto all = options_.shuffle ? Random(options_.seed ^ for_shards).permutation(samples) : ascending(samples);
    shard_.assign(all.begin() + begin, all.begin() + end);
  }
}

std::uint32_t Sampler::steps() const {
  return static_cast<std::uint32_t>((std::uint64_t{samples_} + options_.batch - 1) / options_.batch);
}

const std::vector<std::uint32_t>& Sampler::order(std::uint32_t epoch) {
  if (epoch_ == epoch) return order_;
  // Shards draw for the worker too; global batches must be the same for all.
  const bool shards = options_.partition == Partition::shards;
  const auto who = shards ? static_cast<std::uint64_t>(options_.worker) + 1 : 0;
  order_ = options_.shuffle ? Random(options_.seed ^ for_epochs, who << 32 | epoch).permutation(samples_)
                            : ascending(samples_);
  if (shards) {
    for (std::uint32_t& index : order_) index = shard_[index];
  }
  epoch_ = epoch;
  return order_;
}

SampleBatch Sampler::batch(std::uint32_t epoch, std::uint32_t step) {
  require(step < steps(), "step ", step, " of an epoch of ", steps());
  const auto& all = order(epoch);
  const std::uint32_t first = step * options_.batch;
  const std::uint32_t count = std::min(options_.batch, samples_ - first);
  const auto [begin, end] =
      options_.partition == Partition::shards ? std::pair{0u, count} : share(count, options_.worker, options_.workers);
  return {{all.begin() + first + begin, all.begin() + first + end}, count};
}

}  // namespace ripieno
