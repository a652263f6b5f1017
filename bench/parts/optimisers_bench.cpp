// The optimisers (optim/optimiser.h): parameters stepped a second, out of cache.
#include <benchmark/benchmark.h>

#include "ripieno/optim/optimiser.h"

namespace ripieno {
namespace {

void step(benchmark::State& state, optim::OptimiserOptions options) {
  std::vector<float> weights(9'231'114), gradients(weights.size(), 1e-3f);  // VGG-11 with batch norm at 32x32
  const auto optimiser = optim::make_optimiser(options, weights.size(), DType::fp32);
  for (auto _ : state) {
    optimiser->begin_step();
    optimiser->update(0, weights, gradients, 1e-6);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(weights.size()) * state.iterations());
}

BENCHMARK_CAPTURE(step, sgd, {.name = "sgd"});
BENCHMARK_CAPTURE(step, sgd_nesterov, {.name = "sgd", .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
BENCHMARK_CAPTURE(step, adamw, {.name = "adamw", .weight_decay = 0.01});

}  // namespace
}  // namespace ripieno
