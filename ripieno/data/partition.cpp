#include "ripieno/data/partition.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ripieno/core/error.h"

namespace ripieno::data {
namespace {

using Shards = std::vector<std::vector<std::uint32_t>>;

constexpr const char* names[] = {"even", "reshuffled", "labels", "dirichlet"};
constexpr std::uint64_t for_shards = 0x736861726473;  // "shards": the key of the seed's use
// Streams of it. Class c has the stream for_classes + c.
constexpr std::uint64_t for_order = 0, for_pieces = 1, for_classes = 2;
constexpr double least = 1e-6, most = 1e6;  // limits of shares and alpha, whose quotients then cannot overflow

Random random_for(const PartitionOptions& options, std::uint64_t stream) {
  return Random(options.seed ^ for_shards, stream);
}

void append(std::vector<std::uint32_t>& shard, std::span<const std::uint32_t> samples) {
  shard.insert(shard.end(), samples.begin(), samples.end());
}

/// Cuts the order into [bounds[i], bounds[i+1]).
std::span<const std::uint32_t> piece(std::span<const std::uint32_t> order, std::span<const std::uint32_t> bounds,
                                     std::size_t i) {
  return order.subspan(bounds[i], bounds[i + 1] - bounds[i]);
}

Shards by_label(const PartitionOptions& options, std::vector<std::uint32_t> order, std::span<const std::uint8_t> labels,
                int workers) {
  const std::uint64_t pieces = std::uint64_t{options.shards_per_worker} * static_cast<std::uint64_t>(workers);
  if (pieces == 0 || pieces > order.size()) {
    fail(ErrorKind::usage, "partition = \"labels\": shards_per_worker = ", options.shards_per_worker, " makes ", pieces,
         " pieces of ", order.size(), " samples for ", workers,
         " workers; give 1 or more, and no more pieces than samples");
  }
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return labels[a] < labels[b]; });
  std::vector<std::uint32_t> owners = random_for(options, for_pieces).permutation(static_cast<std::uint32_t>(pieces));
  for (std::uint32_t& owner : owners) owner /= options.shards_per_worker;

  std::vector<double> sizes;  // a worker of twice the share has pieces of twice the size
  if (!options.shares.empty()) {
    for (const std::uint32_t owner : owners) sizes.push_back(options.shares[owner]);
  }
  const auto bounds = proportional(static_cast<std::uint32_t>(order.size()), static_cast<int>(pieces), sizes);
  Shards shards(static_cast<std::size_t>(workers));
  for (std::size_t i = 0; i < owners.size(); ++i) append(shards[owners[i]], piece(order, bounds, i));
  return shards;
}

/// Proportions that sum to about 1: gamma variates over their sum.
std::vector<double> dirichlet_variate(Random& random, const std::vector<double>& parameters) {
  std::vector<double> p;
  for (const double a : parameters) p.push_back(log_gamma_variate(random, a));
  const double largest = *std::max_element(p.begin(), p.end());
  for (double& x : p) x = std::exp(x - largest);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

Shards by_dirichlet(const PartitionOptions& options, const std::vector<std::uint32_t>& order,
                    std::span<const std::uint8_t> labels, int workers) {
  if (!(options.alpha >= least && options.alpha <= most)) {
    fail(ErrorKind::usage, "partition = \"dirichlet\": alpha = ", options.alpha, "; give a number from ", least, " to ",
         most);
  }
  const auto count = static_cast<std::size_t>(workers);
  if (order.size() < count) {
    fail(ErrorKind::usage, "partition = \"dirichlet\": ", order.size(), " samples for ", workers,
         " workers; each must have one");
  }
  std::vector<double> parameters(count, options.alpha);
  const double sum = std::accumulate(options.shares.begin(), options.shares.end(), 0.0);
  for (std::size_t w = 0; w < options.shares.size(); ++w) {
    parameters[w] = options.alpha * static_cast<double>(count) * options.shares[w] / sum;
  }

  std::vector<std::vector<std::uint32_t>> classes(*std::max_element(labels.begin(), labels.end()) + std::size_t{1});
  for (const std::uint32_t sample : order) classes[labels[sample]].push_back(sample);
  Shards shards(count);
  for (std::size_t c = 0; c < classes.size(); ++c) {
    Random random = random_for(options, for_classes + c);
    const auto bounds =
        proportional(static_cast<std::uint32_t>(classes[c].size()), workers, dirichlet_variate(random, parameters));
    for (std::size_t w = 0; w < count; ++w) append(shards[w], piece(classes[c], bounds, w));
  }

  for (auto& shard : shards) {
    if (!shard.empty()) continue;
    auto& largest = *std::max_element(shards.begin(), shards.end(),
                                      [](const auto& a, const auto& b) { return a.size() < b.size(); });
    shard.push_back(largest.back());
    largest.pop_back();
  }
  return shards;
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

void check_shares(std::span<const double> shares, int workers) {
  if (shares.empty()) return;
  if (shares.size() != static_cast<std::size_t>(workers)) {
    fail(ErrorKind::usage, "shares: ", shares.size(), " numbers for ", workers,
         " workers; give one a worker, or none (all alike)");
  }
  for (std::size_t w = 0; w < shares.size(); ++w) {
    if (!(shares[w] >= least && shares[w] <= most)) {
      fail(ErrorKind::usage, "shares: ", shares[w], " for worker ", w, "; give numbers from ", least, " to ", most);
    }
  }
}

std::vector<std::uint32_t> proportional(std::uint32_t n, int workers, std::span<const double> shares) {
  require(workers > 0 && (shares.empty() || shares.size() == static_cast<std::size_t>(workers)), shares.size(),
          " shares for ", workers, " workers");
  std::vector<std::uint32_t> bounds = {0};
  if (std::all_of(shares.begin(), shares.end(), [&](double s) { return s == shares[0]; })) {
    for (int w = 0; w < workers; ++w) bounds.push_back(share(n, w, workers).second);
    return bounds;
  }
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  double sum = 0;
  for (const double s : shares) {
    sum += s;
    // Slightly more than the quotient, so that an integer stays one whatever the rounding of the sums.
    const double bound = std::floor(sum / all * (1 + 0x1p-40) * n);
    bounds.push_back(std::max(bounds.back(), static_cast<std::uint32_t>(std::min(bound, static_cast<double>(n)))));
  }
  bounds.back() = n;
  return bounds;
}

std::span<const char* const> partition_names() { return names; }

bool needs_labels(std::string_view name) { return name == "labels" || name == "dirichlet"; }

Shards share_out(const PartitionOptions& options, std::uint32_t samples, std::span<const std::uint8_t> labels,
                 int workers) {
  if (std::find(std::begin(names), std::end(names), options.name) == std::end(names)) {
    std::string known;
    for (const char* name : names) known += text(known.empty() ? "" : ", ", name);
    fail(ErrorKind::usage, "partition = \"", options.name, "\" is unknown; the known ones are ", known);
  }
  require(workers > 0, "samples shared out to ", workers, " workers");
  check_shares(options.shares, workers);
  if (needs_labels(options.name) && labels.size() != samples) {
    fail(ErrorKind::usage, "partition = \"", options.name, "\" needs the labels of all ", samples, " samples, and has ",
         labels.size(), "; give labels_of(the data set)");
  }

  std::vector<std::uint32_t> order(samples);
  std::iota(order.begin(), order.end(), 0u);
  if (options.shuffle) order = random_for(options, for_order).permutation(samples);
  if (options.name == "labels") return by_label(options, std::move(order), labels, workers);
  if (options.name == "dirichlet") return by_dirichlet(options, order, labels, workers);

  const auto bounds = proportional(samples, workers, options.shares);
  Shards shards(static_cast<std::size_t>(workers));
  for (std::size_t w = 0; w < shards.size(); ++w) append(shards[w], piece(order, bounds, w));
  return shards;
}

std::vector<std::uint8_t> labels_of(Dataset& dataset) {
  require(dataset.classes() <= 256, "labels of ", dataset.classes(), " classes in bytes");
  std::vector<std::uint8_t> labels(dataset.size());
  for (std::uint32_t i = 0; i < dataset.size(); ++i) labels[i] = static_cast<std::uint8_t>(dataset.label(i));
  return labels;
}

/// Marsaglia and Tsang's method with the polar method's normal variates.
double log_gamma_variate(Random& random, double a) {
  const auto log_uniform = [&] { return std::log(1 - random.uniform()); };  // of (0, 1]: never log(0)
  const auto normal = [&] {
    for (;;) {
      const double x = random.uniform(-1, 1), y = random.uniform(-1, 1), square = x * x + y * y;
      if (square > 0 && square < 1) return x * std::sqrt(-2 * std::log(square) / square);
    }
  };
  // A variate of shape a is one of shape a + 1 times u^(1/a).
  const double boost = a < 1 ? log_uniform() / a : 0;
  const double d = (a < 1 ? a + 1 : a) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(), root = 1 + c * x, v = root * root * root;
    if (root > 0 && log_uniform() < x * x / 2 + d - d * v + d * std::log(v)) return std::log(d * v) + boost;
  }
}

}  // namespace ripieno::data
