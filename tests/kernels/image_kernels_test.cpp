#include "ripieno/kernels/image_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ripieno/core/random.h"
#include "ripieno/numeric/elementwise.h"
#include "ripieno/numeric/numbers.h"

namespace ripieno::kernels {
namespace {

/// Numbers that bf16 holds exactly, many alike, as after a ReLU.
std::vector<float> drawn_coarsely(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> all(n);
  for (float& each : all) each = static_cast<float>(static_cast<int>(random.below(17)) - 8) / 4;
  return all;
}

/// In the given type.
struct Typed {
  Typed(std::vector<float> values, DType type) : numbers(values.size(), type) {
    numeric::convert(numbers.span(), NumberSpan(values));
  }
  std::vector<float> values() {
    std::vector<float> all(numbers.span().count);
    numeric::convert(NumberSpan(all), numbers.span());
    return all;
  }
  numeric::Numbers numbers;
};

TEST(ImageKernels, PoolingAndItsGradientEqualPlainLoops) {
  for (const auto& [type, relu] :
       {std::pair{DType::fp32, true}, {DType::bf16, true}, {DType::fp32, false}, {DType::bf16, false}}) {
    for (const Images shape :
         {Images{2, 4, 6, 16}, Images{1, 5, 3, 7}, Images{3, 2, 2, 37}, Images{2, 3, 4, 1}, Images{1, 1, 1, 4}}) {
      Typed in(drawn_coarsely(shape.elements(), 3), type), out(std::vector<float>(shape.pooled().elements(), 9), type);
      std::vector<std::uint8_t> chosen(shape.pooled().elements(), 77);
      max_pool(out.numbers.span(), chosen.data(), in.numbers.span(), shape, relu);
      Typed gradient(drawn_coarsely(chosen.size(), 4), type), found(std::vector<float>(shape.elements(), 9), type);
      max_pool_gradient(found.numbers.span(), gradient.numbers.span(), chosen.data(), shape);

      const auto x = in.values(), g = gradient.values(), y = out.values();
      std::vector<float> expected(shape.elements());
      std::size_t i = 0;
      const Images small = shape.pooled();
      for (std::size_t n = 0; n < small.count; ++n) {
        for (std::size_t row = 0; row < small.height; ++row) {
          for (std::size_t column = 0; column < small.width; ++column) {
            for (std::size_t c = 0; c < small.channels; ++c, ++i) {
              std::size_t best = 0;
              int which = -1;
              for (int k = 0; k < 4; ++k) {
                const std::size_t at =
                    ((n * shape.height + 2 * row + k / 2) * shape.width + 2 * column + k % 2) * shape.channels + c;
                if (which < 0 || x[at] > x[best]) {
                  best = at;
                  which = k;
                }
              }
              const bool passes = !relu || x[best] > 0;
              EXPECT_EQ(y[i], passes ? x[best] : 0);
              EXPECT_EQ(chosen[i], passes ? which : 4);
              if (passes) expected[best] = g[i];
            }
          }
        }
      }
      EXPECT_EQ(found.values(), expected);
    }
  }
}

TEST(ImageKernels, SumsOfPartsAddUpToTheMoments) {
  for (const std::size_t channels : {1u, 16u, 37u, 600u}) {
    const std::size_t pixels = 1000;
    auto values = drawn_coarsely(pixels * channels, 5);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += 1000.0f * static_cast<float>(i % channels + 1);
    std::vector<double> sums[2][2];  // of both parts
    const std::vector<float> about(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(channels));
    const std::size_t cut[] = {0, 300 * channels, values.size()};
    for (int part = 0; part < 2; ++part) {
      for (auto& each : sums[part]) each.assign(channels, 77);
      moment_sums(NumberSpan(values).slice(cut[part], cut[part + 1]), channels, about.data(), sums[part][0].data(),
                  sums[part][1].data());
    }
    for (std::size_t c = 0; c < channels; ++c) {
      double sum = 0, square = 0;
      for (std::size_t p = 0; p < pixels; ++p) sum += values[p * channels + c];
      for (std::size_t p = 0; p < pixels; ++p) square += std::pow(values[p * channels + c] - sum / pixels, 2);
      const double distance = (sums[0][0][c] + sums[1][0][c]) / pixels,
                   squares = (sums[0][1][c] + sums[1][1][c]) / pixels;
      EXPECT_NEAR(about[c] + distance, sum / pixels, 1e-6 * std::abs(sum / pixels)) << channels << " channels, " << c;
      EXPECT_NEAR(squares - distance * distance, square / pixels, 1e-4 * square / pixels)
          << channels << " channels, " << c;
    }
  }
}

TEST(ImageKernels, WorkAChannelEqualsPlainLoops) {
  for (const DType type : {DType::fp32, DType::bf16}) {
    for (const std::size_t channels : {16u, 21u}) {
      const std::size_t n = channels * 300;
      Typed in(drawn_coarsely(n, 6), type), more(drawn_coarsely(n, 7), type), out(std::vector<float>(n), type),
          gradient(drawn_coarsely(n, 8), type);
      std::vector<float> a(channels), b(channels), c(channels);
      std::vector<double> sum(channels), product(channels);
      for (std::size_t k = 0; k < channels; ++k) {
        a[k] = 0.5f * static_cast<float>(k % 3);
        b[k] = 1 - 0.25f * static_cast<float>(k % 5);
        c[k] = 0.125f * static_cast<float>(k % 2);
      }
      const auto x = in.values(), m = more.values(), g = gradient.values();
      scale_channels(out.numbers.span(), in.numbers.span(), channels, a.data(), b.data(), more.numbers.span(), true);
      const auto y = out.values();
      for (std::size_t i = 0; i < n; ++i)
        EXPECT_EQ(y[i], std::max(0.0f, x[i] * a[i % channels] + b[i % channels] + m[i]));

      gradient_sums(gradient.numbers.span(), out.numbers.span(), in.numbers.span(), b.data(), channels, sum.data(),
                    product.data());
      const auto masked = gradient.values();
      std::vector<double> sums(channels), products(channels);
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_EQ(masked[i], y[i] > 0 ? g[i] : 0);
        sums[i % channels] += masked[i];
        products[i % channels] += masked[i] * (x[i] - b[i % channels]);
      }
      for (std::size_t k = 0; k < channels; ++k) {
        EXPECT_NEAR(sum[k], sums[k], 1e-4);
        EXPECT_NEAR(product[k], products[k], 1e-3);
      }

      combine_channels(out.numbers.span(), gradient.numbers.span(), in.numbers.span(), a.data(), b.data(), c.data(),
                       channels);
      const auto combined = out.values();
      for (std::size_t i = 0; i < n; ++i) {
        const float expected = masked[i] * a[i % channels] + x[i] * b[i % channels] + c[i % channels];
        EXPECT_NEAR(combined[i], expected, type == DType::bf16 ? std::abs(expected) / 256 : 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace ripieno::kernels
