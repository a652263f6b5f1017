// Convolutions of the zoo, forward and backward, on one thread: by Winograd's filtering (fused/winograd.h), and as
// LibTorch computes them, of images in fp32 and in bf16. Operations of the direct sums a second, so that the two can be
// compared.
#include <benchmark/benchmark.h>

#include "ripieno/fused/winograd.h"

namespace ripieno {
namespace {

/// Channels, channels, pixels a side, images, bits a number.
void layers(benchmark::internal::Benchmark* benchmark) {
  for (const auto& [in, out, size] :
       {std::tuple{64, 64, 32}, {64, 128, 16}, {256, 256, 8}, {256, 512, 4}, {512, 512, 4}, {512, 512, 2}}) {
    for (const int images : {32, 64}) {
      for (const int bits : {32, 16}) benchmark->Args({in, out, size, images, bits});
    }
  }
}

struct Layer {
  explicit Layer(benchmark::State& state)
      : type(state.range(4) == 16 ? torch::kBFloat16 : torch::kFloat32),
        input(images(state.range(3), state.range(0), state.range(2))),
        gradient(images(state.range(3), state.range(1), state.range(2))),
        weight(torch::randn({state.range(1), state.range(0), 3, 3}).contiguous(torch::MemoryFormat::ChannelsLast)) {
    at::set_num_threads(1);
  }
  torch::Tensor images(std::int64_t count, std::int64_t channels, std::int64_t size) const {
    return torch::randn({count, channels, size, size}).to(type).contiguous(torch::MemoryFormat::ChannelsLast);
  }
  /// Two operations a product, in the forward pass and for each of the two gradients.
  void report(benchmark::State& state) const {
    state.SetItemsProcessed(3 * 2 * weight.numel() * gradient.numel() / gradient.size(1) * state.iterations());
  }
  torch::NoGradGuard no_grad;
  torch::ScalarType type;
  torch::Tensor input, gradient, weight;
};

void convolution_winograd(benchmark::State& state) {
  Layer layer(state);
  const auto winograd = fused::Winograd::of(layer.input.sizes(), layer.weight.sizes(), 1, 1);
  if (!winograd) return state.SkipWithError("not computed so");
  const torch::Tensor by_weight = torch::empty_like(layer.weight);
  for (auto _ : state) {
    const torch::Tensor points = winograd->prepared(layer.weight);
    benchmark::DoNotOptimize(winograd->forward(layer.input, points, {}));
    benchmark::DoNotOptimize(winograd->backward(
        layer.gradient, layer.input, points, by_weight, [] {}, true));
  }
  layer.report(state);
}

void convolution_direct(benchmark::State& state) {
  const Layer layer(state);
  for (auto _ : state) {
    const torch::Tensor weight = layer.weight.to(layer.type);
    benchmark::DoNotOptimize(at::conv2d(layer.input, weight, {}, 1, 1));
    benchmark::DoNotOptimize(at::convolution_backward(layer.gradient, layer.input, weight, at::OptionalIntArrayRef(),
                                                      {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1, {true, true, false}));
  }
  layer.report(state);
}

BENCHMARK(convolution_winograd)->Apply(layers);
BENCHMARK(convolution_direct)->Apply(layers);

}  // namespace
}  // namespace ripieno
