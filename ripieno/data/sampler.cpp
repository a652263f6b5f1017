#include "ripieno/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ripieno/core/error.h"
#include "ripieno/core/random.h"

namespace ripieno::data {
namespace {

constexpr std::uint64_t for_epochs = 0x65706F636873;  // "epochs": the key of the seed's use, apart from shards

std::vector<std::uint32_t> ascending(std::uint32_t n) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

std::uint32_t rounded_up(std::uint32_t samples, std::uint32_t batch) {
  return static_cast<std::uint32_t>((std::uint64_t{samples} + batch - 1) / batch);
}

/// `batch` times each worker's share divided by the average share, rounded to the nearest integer, at least 1.
std::vector<std::uint32_t> own_batches(std::uint32_t batch, int workers, const std::vector<double>& shares) {
  if (shares.empty()) return std::vector<std::uint32_t>(static_cast<std::size_t>(workers), batch);
  const double average = std::accumulate(shares.begin(), shares.end(), 0.0) / workers;
  std::vector<std::uint32_t> batches;
  for (const double share : shares) {
    const double most = std::numeric_limits<std::uint32_t>::max();
    batches.push_back(static_cast<std::uint32_t>(std::clamp(std::round(batch * (share / average)), 1.0, most)));
  }
  return batches;
}

}  // namespace

Sampler::Sampler(std::uint32_t samples, SamplerOptions options, std::span<const std::uint8_t> labels)
    : options_(std::move(options)), total_(samples) {
  if (options_.batch == 0) fail(ErrorKind::usage, "a batch of 0 samples; ask for at least 1");
  const int worker = options_.worker, workers = options_.workers;
  require(worker >= 0 && worker < workers, "worker ", worker, " of ", workers);
  check_shares(options_.shares, workers);
  steps_.assign(static_cast<std::size_t>(workers), rounded_up(samples, options_.batch));
  if (options_.partition == Partition::global_batches) return;

  const PartitionOptions sharing = {.name = options_.sharing,
                                    .shards_per_worker = options_.shards_per_worker,
                                    .alpha = options_.alpha,
                                    .seed = options_.seed,
                                    .shuffle = options_.shuffle,
                                    .shares = options_.shares};
  auto shards = share_out(sharing, samples, labels, workers);
  batches_ = own_batches(options_.batch, workers, options_.shares);
  for (std::size_t w = 0; w < shards.size(); ++w) {
    sizes_.push_back(static_cast<std::uint32_t>(shards[w].size()));
    steps_[w] = rounded_up(sizes_[w], batches_[w]);
  }
  if (options_.partition == Partition::shards_in_step) {
    std::fill(steps_.begin(), steps_.end(), *std::max_element(steps_.begin(), steps_.end()));
  }
  shard_ = std::move(shards[static_cast<std::size_t>(worker)]);
}

std::uint32_t Sampler::samples() const {
  return options_.partition == Partition::global_batches ? total_ : static_cast<std::uint32_t>(shard_.size());
}

std::vector<std::uint32_t> Sampler::samples_of_all() const {
  if (options_.partition != Partition::global_batches) return sizes_;
  std::vector<std::uint32_t> all(static_cast<std::size_t>(options_.workers), 0);
  if (total_ == 0) return all;
  const std::uint32_t last = steps() - 1;  // all steps before it have the same size
  const auto whole = counts_of_all(0), rest = counts_of_all(last);
  for (std::size_t w = 0; w < all.size(); ++w) all[w] = last * whole[w] + rest[w];
  return all;
}

std::vector<std::uint32_t> Sampler::counts_of_all(std::uint32_t step) const {
  std::vector<std::uint32_t> all(steps_.size(), 0);
  if (options_.partition == Partition::global_batches) {
    if (step >= steps()) return all;
    const auto [first, last] = global_range(step);
    const auto bounds = proportional(last - first, options_.workers, options_.shares);
    for (std::size_t w = 0; w < all.size(); ++w) all[w] = bounds[w + 1] - bounds[w];
    return all;
  }
  for (std::size_t w = 0; w < all.size(); ++w) {
    if (step >= steps_[w]) continue;
    const auto [begin, end] = shard_range(w, step);
    all[w] = end - begin;
  }
  return all;
}

std::pair<std::uint32_t, std::uint32_t> Sampler::global_range(std::uint32_t step) const {
  const std::uint32_t first = step * options_.batch;
  return {first, first + std::min(options_.batch, total_ - first)};
}

std::pair<std::uint32_t, std::uint32_t> Sampler::shard_range(std::size_t worker, std::uint32_t step) const {
  const std::uint32_t n = sizes_[worker], batch = batches_[worker];
  if (options_.partition == Partition::shards) {
    const std::uint32_t first = step * batch;
    return {first, first + std::min(batch, n - first)};
  }
  // In step: the shard is spread over all steps.
  const auto bound = [&](std::uint64_t s) { return static_cast<std::uint32_t>(n * s / steps_[worker]); };
  return {bound(step), bound(std::uint64_t{step} + 1)};
}

const std::vector<std::uint32_t>& Sampler::order(std::uint32_t epoch) {
  if (epoch_ == epoch) return order_;
  // Fixed shards draw per worker; an order that is dealt out anew must be the same for all workers.
  const bool shards = options_.partition != Partition::global_batches && options_.sharing != "reshuffled";
  const auto who = shards ? static_cast<std::uint64_t>(options_.worker) + 1 : 0;
  const std::uint32_t count = shards ? samples() : total_;
  order_ =
      options_.shuffle ? Random(options_.seed ^ for_epochs, who << 32 | epoch).permutation(count) : ascending(count);
  if (shards) {
    for (std::uint32_t& index : order_) index = shard_[index];
  } else if (options_.partition != Partition::global_batches) {
    const auto worker = static_cast<std::size_t>(options_.worker);
    const auto bounds = proportional(total_, options_.workers, options_.shares);
    order_ = {order_.begin() + bounds[worker], order_.begin() + bounds[worker + 1]};
  }
  epoch_ = epoch;
  return order_;
}

SampleBatch Sampler::batch(std::uint32_t epoch, std::uint32_t step) {
  require(step < steps(), "step ", step, " of an epoch of ", steps());
  const auto worker = static_cast<std::size_t>(options_.worker);
  const auto counts = counts_of_all(step);
  std::uint32_t begin = 0;
  if (options_.partition == Partition::global_batches) {
    begin = std::accumulate(counts.begin(), counts.begin() + options_.worker, global_range(step).first);
  } else {
    begin = shard_range(worker, step).first;
  }
  const bool own_pace = options_.partition == Partition::shards;
  const std::uint32_t global = own_pace ? counts[worker] : std::accumulate(counts.begin(), counts.end(), 0u);
  const auto first = order(epoch).begin() + begin;
  return {{first, first + counts[worker]}, global};
}

}  // namespace ripieno::data
