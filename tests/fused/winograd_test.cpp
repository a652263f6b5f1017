#include "ripieno/fused/winograd.h"

#include <gtest/gtest.h>

#include "ripieno/fused/convolution.h"

namespace ripieno::fused {
namespace {

using torch::Tensor;

struct WinogradCase {
  std::int64_t images, in, out, height, width, padding;
};

Tensor relative_error(const Tensor& found, const Tensor& exact) {
  return (found.to(torch::kFloat64) - exact).norm() / exact.norm();
}

/// Result and gradients, each as far from fp64 as fp32's direct sums are, or a few times as far.
void expect_as_exact(const WinogradCase& c) {
  SCOPED_TRACE(testing::Message() << c.images << " x " << c.in << " x " << c.height << " x " << c.width << " to "
                                  << c.out << ", padding " << c.padding);
  torch::manual_seed(3);
  const auto x = torch::randn({c.images, c.in, c.height, c.width}).contiguous(torch::MemoryFormat::ChannelsLast);
  const auto weight = torch::randn({c.out, c.in, 3, 3}).contiguous(torch::MemoryFormat::ChannelsLast),
             bias = torch::randn({c.out});
  const auto winograd = Winograd::of(x.sizes(), weight.sizes(), 1, c.padding);
  ASSERT_TRUE(winograd);

  const auto exact = x.to(torch::kFloat64).requires_grad_(), exact_weight = weight.to(torch::kFloat64).requires_grad_();
  const auto y = torch::conv2d(exact, exact_weight, bias.to(torch::kFloat64), 1, c.padding);
  const auto gradient = torch::randn(y.sizes()).contiguous(torch::MemoryFormat::ChannelsLast);
  y.backward(gradient.to(torch::kFloat64));

  const auto points = winograd->prepared(weight);
  EXPECT_LT(relative_error(winograd->forward(x, points, bias), y.detach()).item<double>(), 4e-6);
  EXPECT_LT(relative_error(winograd->forward(x, points, {}), (y - bias.view({1, -1, 1, 1})).detach()).item<double>(),
            4e-6);
  const auto by_weight = torch::full_like(weight, NAN);
  int told = 0;
  const auto written = [&] {
    ++told;
    EXPECT_LT(relative_error(by_weight, exact_weight.grad()).item<double>(), 4e-6);
  };
  EXPECT_LT(
      relative_error(winograd->backward(gradient, x, points, by_weight, written, true), exact.grad()).item<double>(),
      4e-6);
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(winograd->backward(gradient, x, points, by_weight.fill_(NAN), written, false).defined());
  EXPECT_EQ(told, 2);
}

TEST(Winograd, EqualsTheDirectSums) {
  for (const WinogradCase& c : {WinogradCase{64, 64, 64, 8, 8, 1},
                                {32, 256, 256, 2, 2, 1},
                                {64, 256, 128, 4, 4, 1},
                                {32, 24, 64, 31, 31, 1},
                                {40, 64, 48, 12, 9, 0},
                                {33, 64, 64, 9, 10, 2},
                                {64, 128, 128, 4, 4, 0}}) {
    expect_as_exact(c);
  }
}

// What is rounded to 16 bits is the result alone: a product with what was rounded before is as exact as in fp32.
TEST(Winograd, ImagesOf16BitsLoseNothingButTheResultsRounding) {
  torch::manual_seed(5);
  for (const auto& [in, out, size] :
       {std::tuple{64, 64, 15}, {64, 256, 15}, {256, 256, 7}}) {  // in parts of images and of channels
    for (const std::int64_t images : {3, 40}) {
      SCOPED_TRACE(testing::Message() << images << " x " << in << " x " << size << " x " << size << " to " << out);
      const auto of_16_bits = [](torch::IntArrayRef sizes) {
        return torch::randn(sizes).to(torch::kBFloat16).contiguous(torch::MemoryFormat::ChannelsLast);
      };
      const auto x = of_16_bits({images, in, size, size}), gradient = of_16_bits({images, out, size, size});
      const auto weight = torch::randn({out, in, 3, 3}).contiguous(torch::MemoryFormat::ChannelsLast),
                 bias = torch::randn({out});
      const auto winograd = Winograd::of(x.sizes(), weight.sizes(), 1, 1);
      ASSERT_TRUE(winograd);

      const auto exact = x.to(torch::kFloat64).requires_grad_(),
                 exact_weight = weight.to(torch::kFloat64).requires_grad_();
      const auto y = torch::conv2d(exact, exact_weight, bias.to(torch::kFloat64), 1, 1);
      y.backward(gradient.to(torch::kFloat64));
      const auto points = winograd->prepared(weight), found = winograd->forward(x, points, bias),
                 by_weight = torch::full_like(weight, NAN);
      const auto by_input = winograd->backward(
          gradient, x, points, by_weight, [] {}, true);
      EXPECT_EQ(found.scalar_type(), torch::kBFloat16);
      EXPECT_EQ(by_input.scalar_type(), torch::kBFloat16);
      EXPECT_LT(relative_error(found, y.detach()).item<double>(), 0.0022);
      EXPECT_LT(relative_error(by_input, exact.grad()).item<double>(), 0.0022);
      EXPECT_LT(relative_error(by_weight, exact_weight.grad()).item<double>(), 4e-6);
    }
  }
}

// Whichever way this processor goes.
TEST(Winograd, ConvolutionsIn16BitsAreTheDirectSums) {
  torch::manual_seed(6);
  const auto x = torch::randn({32, 128, 8, 8}).to(torch::kBFloat16).contiguous(torch::MemoryFormat::ChannelsLast);
  const auto weight = torch::randn({256, 128, 3, 3}).contiguous(torch::MemoryFormat::ChannelsLast),
             bias = torch::randn({256});
  const Convolution form{x.sizes().vec(), weight.sizes().vec(), 1, 1, torch::kBFloat16};
  const auto exact = x.to(torch::kFloat64).requires_grad_(), exact_weight = weight.to(torch::kFloat64).requires_grad_();
  const auto y = torch::conv2d(exact, exact_weight, bias.to(torch::kFloat64), 1, 1);
  const auto gradient = torch::randn(y.sizes()).to(torch::kBFloat16).contiguous(torch::MemoryFormat::ChannelsLast);
  y.backward(gradient.to(torch::kFloat64));

  const auto read = weight_for(form, weight), by_weight = torch::full_like(weight, NAN),
             by_bias = torch::full_like(bias, NAN);
  const auto found = convolve(form, {x, read}, bias.to(torch::kBFloat16));
  int told = 0;
  const auto by_input = backward(form, {x, read}, gradient, {by_weight, by_bias, [&] { ++told; }}, true);
  EXPECT_EQ(told, 1);
  EXPECT_LT(relative_error(found, y.detach()).item<double>(), 0.005);
  EXPECT_LT(relative_error(by_input, exact.grad()).item<double>(), 0.005);
  EXPECT_LT(relative_error(by_weight, exact_weight.grad()).item<double>(), 0.005);
  EXPECT_LT(relative_error(by_bias, gradient.to(torch::kFloat64).sum({0, 2, 3})).item<double>(), 0.005);
}

TEST(Winograd, LargeBatchesAndManyWeightsAreDoneInPartsByOneThreadOrMore) {
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    expect_as_exact({.images = 130, .in = 32, .out = 64, .height = 16, .width = 16, .padding = 1});
    expect_as_exact({.images = 24,
                     .in = 200,
                     .out = 232,
                     .height = 4,
                     .width = 4,
                     .padding = 1});  // parts are channels, the last smaller
  }
  at::set_num_threads(before);
}

TEST(Winograd, IsForManyChannelsAndPixelsOfItsFormAlone) {
  const std::vector<std::int64_t> images{64, 64, 16, 16}, weight{64, 64, 3, 3};
  EXPECT_TRUE(Winograd::of(images, weight, 1, 1));
  EXPECT_TRUE(Winograd::of(images, weight, 1, 1, 0.6));
  EXPECT_FALSE(Winograd::of(images, weight, 1, 1, 0.1)) << "direct products cost a tenth";
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
}  // namespace ripieno::fused
