#include "ripieno/fused/pixel_products.h"

#include <gtest/gtest.h>

#include "ripieno/fused/convolution.h"

namespace ripieno::fused {
namespace {

using torch::Tensor;

constexpr auto nhwc = torch::MemoryFormat::ChannelsLast;

double farthest(const Tensor& found, const Tensor& exact) {
  return (found.to(torch::kFloat64) - exact).abs().max().item<double>() / (1e-30 + exact.abs().max().item<double>());
}

TEST(PixelProducts, EqualTheDirectSums) {
  torch::manual_seed(4);
  for (const std::int64_t kernel : {2, 3, 5}) {
    for (const auto& [height, width] : {std::pair{1, 1}, {2, 2}, {3, 2}, {1, 4}, {4, 4}, {6, 5}}) {
      for (std::int64_t padding = 0; padding < kernel; ++padding) {
        for (const std::int64_t images : {1, 3}) {
          SCOPED_TRACE(testing::Message() << images << " images of " << height << " x " << width << ", kernel "
                                          << kernel << ", padding " << padding);
          const auto x = torch::randn({images, 7, height, width}).contiguous(nhwc),
                     weight = torch::randn({6, 7, kernel, kernel}).contiguous(nhwc);
          const auto bias = torch::randn({6});
          const auto products = PixelProducts::of(x.sizes(), weight.sizes(), 1, padding);
          const std::int64_t rows = height + 2 * padding - kernel + 1, columns = width + 2 * padding - kernel + 1;
          ASSERT_EQ(products.has_value(), rows >= 1 && columns >= 1 && rows <= 4 && columns <= 4);
          if (!products) continue;

          const auto exact = x.to(torch::kFloat64).requires_grad_(),
                     exact_weight = weight.to(torch::kFloat64).requires_grad_();
          const auto y = torch::conv2d(exact, exact_weight, {}, 1, padding);
          const auto gradient = torch::randn(y.sizes()).contiguous(nhwc);
          y.backward(gradient.to(torch::kFloat64));
          EXPECT_LT(farthest(products->forward(x, weight, {}), y.detach()), 1e-6);
          EXPECT_LT(farthest(products->forward(x, weight, bias), (y + bias.view({1, -1, 1, 1})).detach()), 1e-6);
          EXPECT_LT(farthest(products->input_gradient(gradient, weight), exact.grad()), 1e-6);
          const auto by_weight = torch::full_like(weight, NAN);
          products->weight_gradient(gradient, x, by_weight);
          EXPECT_LT(farthest(by_weight, exact_weight.grad()), 1e-6);
        }
      }
    }
  }
}

TEST(PixelProducts, AreCountedWithoutThePlacesBesideTheImage) {
  const auto products = [](std::int64_t size, std::int64_t padding) {
    return PixelProducts::of({10, 5, size, size}, {7, 5, 3, 3}, 1, padding)->operations() / (10 * 5 * 7);
  };
  EXPECT_EQ(products(1, 1), 1);
  EXPECT_EQ(products(2, 1), 16);
  EXPECT_EQ(products(3, 1), 49);
  EXPECT_EQ(products(5, 0), 81);
  EXPECT_FALSE(PixelProducts::of({10, 5, 5, 5}, {7, 5, 3, 3}, 1, 1)) << "a larger result";
  EXPECT_FALSE(PixelProducts::of({10, 5, 4, 4}, {7, 5, 3, 3}, 2, 1)) << "another stride";
  EXPECT_FALSE(PixelProducts::of({10, 5, 4, 4}, {7, 5, 1, 1}, 1, 0)) << "already one product";
}

TEST(PixelProducts, AreTakenWhereTheyAreFewest) {
  const auto way = [](std::int64_t images, std::int64_t channels, std::int64_t size,
                      torch::ScalarType type = torch::kFloat32) {
    return Convolution{{images, channels, size, size}, {channels, channels, 3, 3}, 1, 1, type}.algorithm();
  };
  EXPECT_TRUE(std::holds_alternative<PixelProducts>(way(64, 512, 2)));
  EXPECT_TRUE(std::holds_alternative<Winograd>(way(64, 512, 4)));
  EXPECT_TRUE(std::holds_alternative<Winograd>(way(64, 512, 8)));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(way(64, 16, 2))) << "too small to be fast";
  // Not in bf16: LibTorch's own are faster where the processor multiplies bf16, Winograd's elsewhere.
  EXPECT_FALSE(std::holds_alternative<PixelProducts>(way(64, 512, 2, torch::kBFloat16)));
}

}  // namespace
}  // namespace ripieno::fused
