#include "ripieno/predict/costs.h"

#include <algorithm>

#include "ripieno/collective/virtual_cluster.h"
#include "ripieno/numeric/numbers.h"
#include "ripieno/predict/shrink.h"
#include "ripieno/strategy/slots.h"

namespace ripieno::predict {
namespace {

constexpr double most_numbers = 4e6;  // the most numbers encoded in a measurement
constexpr int repeats = 5;            // after a first run, which fills the caches

/// The median real time of a piece of work.
template <class Work>
double typical(Work work) {
  const auto clock = real_runtime(0);
  std::vector<double> times;
  for (int i = 0; i <= repeats; ++i) {
    const Duration start = clock->now();
    work();
    if (i > 0) times.push_back(seconds(clock->now() - start));
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[repeats / 2];
}

numeric::Numbers drawn(std::size_t count, DType type) {
  std::vector<float> draws(count);
  Random random(0, 1);
  for (float& draw : draws) draw = static_cast<float>(random.uniform(-1e-3, 1e-3));
  numeric::Numbers numbers(count, type);
  numeric::convert(numbers.span(), NumberSpan(draws));
  return numbers;
}

}  // namespace

double coding_cost(const codec::CodecOptions& asked, const strategy::Layout& whole) {
  codec::CodecOptions codec = asked;
  codec.number_s = 0;
  const strategy::Layout layout =
      shrunk(whole, std::max(1.0, static_cast<double>(whole.parameters) / most_numbers), codec);
  constexpr int ranks = 2;
  transport::SimulatedOptions network;
  network.link = {Duration(0), Duration(0)};
  collective::VirtualCluster cluster(ranks, network);
  numeric::Numbers fresh = drawn(layout.parameters, layout.type);
  std::vector<numeric::Numbers> numbers;
  std::vector<std::unique_ptr<collective::Averager>> averagers;
  for (int rank = 0; rank < ranks; ++rank) {
    numbers.emplace_back(layout.parameters, layout.type);
    averagers.push_back(
        collective::make_averager({.codec = codec}, strategy::slots_of(layout, layout.buckets), layout.type));
  }
  const auto average = [&](collective::Communicator comm) -> Task<> {
    const int rank = comm.endpoint().rank();
    const NumberSpan own = numbers[static_cast<std::size_t>(rank)].span();
    for (std::size_t i = 0; i < layout.buckets.size(); ++i) {
      const Range bucket = layout.buckets[i];
      co_await averagers[static_cast<std::size_t>(rank)]->average(comm, i, own.slice(bucket.begin, bucket.end),
                                                                  1.0 / ranks);
      averagers[static_cast<std::size_t>(rank)]->commit(i);
    }
  };
  const double taken = typical([&] {
    for (numeric::Numbers& own : numbers) numeric::convert(own.span(), fresh.span());
    cluster.run(average);
  });
  return taken / ranks / static_cast<double>(layout.parameters);
}

Duration optimiser_cost(const optim::OptimiserOptions& options, std::size_t parameters, DType type) {
  const auto optimiser = optim::make_optimiser(options, parameters, type);
  numeric::Numbers weights = drawn(parameters, type), gradients = drawn(parameters, type);
  return from_seconds(typical([&] {
    optimiser->begin_step();
    optimiser->update(0, weights.span(), gradients.span(), 1e-3);
  }));
}

}  // namespace ripieno::predict
