// Fused batch normalisation where numbers are not finite, or far from 0.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ripieno/fused/run_layers.h"

namespace ripieno::fused {
namespace {

/// y, statistics and gradients of a batch normalisation.
std::vector<torch::Tensor> normalised(const torch::Tensor& values, bool fused) {
  const auto x = values.clone(torch::MemoryFormat::ChannelsLast).requires_grad_();
  torch::nn::Sequential layers(torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(values.size(1))));
  if (x.scalar_type() == torch::kFloat64) layers->to(torch::kFloat64);
  const torch::Tensor y = fused ? run_layers(layers, x) : layers->forward(x);
  (y.to(torch::kFloat32) * torch::linspace(-1, 1, y.numel()).view_as(y)).sum().backward();
  std::vector<torch::Tensor> all{y.detach().to(torch::kFloat32), x.grad()};
  for (const auto& parameter : layers->parameters()) all.push_back(parameter.grad());
  for (const torch::Tensor& buffer : layers->buffers()) all.push_back(buffer.to(torch::kFloat64));
  return all;
}

/// What is not finite is NaN or infinite where LibTorch has it.
TEST(FusedBatchNorm, HidesNothingThatIsNotFinite) {
  torch::manual_seed(15);
  const torch::Tensor x = torch::randn({4, 6, 5, 5});
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& wrong : {std::vector<double>{infinity}, {-infinity}, {NAN}, {infinity, -infinity}, {3e38}, {1e25}}) {
    for (const std::int64_t pixel : {0, 61, 99}) {
      torch::Tensor bad = x.clone();
      for (std::size_t i = 0; i < wrong.size(); ++i) bad[(pixel + i) % 4][2][pixel % 5][pixel / 5 % 5] = wrong[i];
      const auto found = normalised(bad, true), expected = normalised(bad, false);
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_TRUE(torch::equal(found[i].isnan(), expected[i].isnan())) << wrong << " tensor " << i;
        EXPECT_TRUE(torch::equal(found[i].isinf(), expected[i].isinf())) << wrong << " tensor " << i;
      }
      const auto finite = expected[0].isfinite();
      EXPECT_TRUE(torch::allclose(found[0].masked_select(finite), expected[0].masked_select(finite), 1e-4, 1e-5))
          << wrong;
    }
  }
}

/// Against fp64, whichever pixel is far out and however far all are from 0.
TEST(FusedBatchNorm, ItsMomentsAreAsExactAsLibTorchs) {
  torch::manual_seed(16);
  const torch::Tensor numbers = torch::randn({8, 5, 16, 16});
  for (const double far : {0., 10., 1000., 1e6}) {
    for (const double mean : {0., 100.}) {
      torch::Tensor x = numbers + mean;
      for (const auto& [n, y] : {std::pair(0, 0), {3, 7}, {7, 15}}) x[n].select(1, y).select(1, y) += far;
      const auto exact = normalised(x.to(torch::kFloat64), false), plain = normalised(x, false),
                 found = normalised(x, true);
      const auto off = [&](const std::vector<torch::Tensor>& from, std::size_t i) {
        return (from[i].to(torch::kFloat64) - exact[i]).abs().max().item<double>();
      };
      for (const std::size_t i : {0, 1, 4, 5}) {  // y, the gradient of x, the running statistics
        const double size = exact[i].abs().max().item<double>();
        EXPECT_LE(off(found, i), 4 * off(plain, i) + 1e-6 * size) << far << " out, mean " << mean << ", tensor " << i;
      }
    }
  }
}

}  // namespace
}  // namespace ripieno::fused
