#include "ripieno/model/winograd.h"

#include <gtest/gtest.h>

namespace ripieno {
namespace {

using torch::Tensor;

struct WinogradCase {
  std::int64_t images, in, out, height, width, padding;
};

Tensor relative_error(const Tensor& found, const Tensor& exact) { return (found.to(torch::kFloat64) - exact).norm() / exact.norm(); }

/// Result and gradients, each as far from fp64 as fp32's direct sums are, or a few times as far.
void expect_as_exact(const WinogradCase& c) {
  SCOPED_TRACE(testing::Message() << c.images << " x " << c.in << " x " << c.height << " x " << c.width << " to " << c.out << ", padding " << c.padding);
  torch::manual_seed(3);
  const auto x = torch::randn({c.images, c.in, c.height, c.width}).contiguous(torch::MemoryFormat::ChannelsLast);
  const auto weight = torch::randn({c.out, c.in, 3, 3}).contiguous(torch::MemoryFormat::ChannelsLast), bias = torch::randn({c.out});
  const auto winograd = Winograd::of(x.sizes(), weight.sizes(), 1, c.padding);
  ASSERT_TRUE(winograd);

  const auto exact = x.to(torch::kFloat64).requires_grad_(), exact_weight = weight.to(torch::kFloat64).requires_grad_();
  const auto y = torch::conv2d(exact, exact_weight, bias.to(torch::kFloat64), 1, c.padding);
  const auto gradient = torch::randn(y.sizes()).contiguous(torch::MemoryFormat::ChannelsLast);
  y.backward(gradient.to(torch::kFloat64));

  const auto points = winograd->prepared(weight);
  EXPECT_LT(relative_error(winograd->forward(x, points, bias), y.detach()).item<double>(), 4e-6);
  EXPECT_LT(relative_error(winograd->forward(x, points, {}), (y - bias.view({1, -1, 1, 1})).detach()).item<double>(), 4e-6);
  const auto by_weight = torch::full_like(weight, NAN);
  int told = 0;
  const auto written = [&] {
    ++told;
    EXPECT_LT(relative_error(by_weight, exact_weight.grad()).item<double>(), 4e-6);
  };
  EXPECT_LT(relative_error(winograd->backward(gradient, x, points, by_weight, written, true), exact.grad()).item<double>(), 4e-6);
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(winograd->backward(gradient, x, points, by_weight.fill_(NAN), written, false).defined());
  EXPECT_EQ(told, 2);
}

TEST(Winograd, EqualsTheDirectSums) {
  for (const WinogradCase& c : {WinogradCase{64, 64, 64, 8, 8, 1}, {32, 256, 256, 2, 2, 1}, {64, 256, 128, 4, 4, 1}, {32, 24, 64, 31, 31, 1}, {40, 64, 48, 12, 9, 0},
                        {33, 64, 64, 9, 10, 2}, {64, 128, 128, 4, 4, 0}}) {
    expect_as_exact(c);
  }
}

TEST(Winograd, LargeBatchesAndManyWeightsAreDoneInPartsByOneThreadOrMore) {
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    expect_as_exact({.images = 130, .in = 32, .out = 64, .height = 16, .width = 16, .padding = 1});
    expect_as_exact({.images = 24, .in = 200, .out = 232, .height = 4, .width = 4, .padding = 1});  // parts are channels, the last smaller
  }
  at::set_num_threads(before);
}

TEST(Winograd, IsForManyChannelsAndPixelsOfItsFormAlone) {
  const std::vector<std::int64_t> images{64, 64, 16, 16}, weight{64, 64, 3, 3};
  EXPECT_TRUE(Winograd::of(images, weight, 1, 1));
  EXPECT_FALSE(Winograd::of(images, weight, 2, 1));
  EXPECT_FALSE(Winograd::of(images, weight, 1, 3));
  EXPECT_FALSE(Winograd::of(images, {64, 64, 5, 5}, 1, 1));
  EXPECT_FALSE(Winograd::of(images, {64, 64, 3, 1}, 1, 1));
  EXPECT_FALSE(Winograd::of({64, 60, 16, 16}, {64, 60, 3, 3}, 1, 1)) << "the kernels are for multiples of 8";
  EXPECT_FALSE(Winograd::of({64, 8, 16, 16}, {8, 8, 3, 3}, 1, 1)) << "the transforms would take longer";
  EXPECT_FALSE(Winograd::of({1, 512, 2, 2}, {512, 512, 3, 3}, 1, 1)) << "the weights' transform would take longer";
  EXPECT_FALSE(Winograd::of({64, 64, 2, 2}, weight, 1, 0)) << "no pixel is left";
  EXPECT_FALSE(Winograd::of({0, 64, 16, 16}, weight, 1, 1)) << "nothing to do";
}

}  // namespace
}  // namespace ripieno
