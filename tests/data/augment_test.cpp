#include "ripieno/data/augment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "ripieno/core/error.h"

namespace ripieno::data {
namespace {

constexpr ImageShape shape = {3, 5, 7};
constexpr Normalisation normalisation = {{0.5f, 0.25f, 0.125f}, {0.2f, 0.3f, 0.4f}};

/// Bytes that are all different, and none is the padding's zero.
std::vector<std::uint8_t> image() {
  std::vector<std::uint8_t> pixels(shape.pixels());
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i + 1);
  return pixels;
}

float expected(int byte, int channel) {
  const auto c = static_cast<std::size_t>(channel);
  return (static_cast<float>(byte) / 255.0f - normalisation.mean[c]) / normalisation.std[c];
}

/// The definition: pad with zeros, cut a window, mirror it, normalise, pixel by pixel.
std::vector<float> reference(int top, int left, bool flipped) {
  const auto pixels = image();
  std::vector<float> out;
  for (int c = 0; c < shape.channels; ++c) {
    for (int y = 0; y < shape.height; ++y) {
      for (int x = 0; x < shape.width; ++x) {
        const int from_y = y + top, from_x = (flipped ? shape.width - 1 - x : x) + left;
        const bool in = from_y >= 0 && from_y < shape.height && from_x >= 0 && from_x < shape.width;
        const int at = (c * shape.height + from_y) * shape.width + from_x;
        out.push_back(expected(in ? pixels[static_cast<std::size_t>(at)] : 0, c));
      }
    }
  }
  return out;
}

std::vector<float> augmented(const AugmentOptions& options, Random& random) {
  const auto pixels = image();
  std::vector<float> out(pixels.size(), -99.0f);
  augment(pixels, shape, options, normalisation, random, out);
  return out;
}

TEST(Augment, NormalisesEachChannelByItsOwn) {
  Random random(1);
  EXPECT_EQ(augmented({}, random), reference(0, 0, false));
  const auto pixels = image();
  std::vector<float> out(pixels.size());
  normalise(pixels, shape, normalisation, out);
  EXPECT_EQ(out, reference(0, 0, false));
}

TEST(Augment, ScalesToOneWithoutNormalising) {
  Random random(1);
  const auto out = augmented({.pixels = PixelScale::unit}, random);
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], static_cast<float>(i + 1) / 255.0f);
}

TEST(Augment, LeavesBytesAsTheyAreWithoutScaling) {
  Random random(1);
  const auto out = augmented({.pixels = PixelScale::none}, random);
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_FLOAT_EQ(out[i], static_cast<float>(i + 1));
}

TEST(Augment, EveryResultIsAWindowAndEveryWindowComesUpEquallyOften) {
  // With padding 8, larger than the image, some windows hold nothing of it.
  for (const int padding : {1, 2, 8}) {
    std::map<std::vector<float>, double> share;
    const double windows = 2.0 * (2 * padding + 1) * (2 * padding + 1);
    for (int top = -padding; top <= padding; ++top) {
      for (int left = -padding; left <= padding; ++left) {
        for (const bool flipped : {false, true}) share[reference(top, left, flipped)] += 1 / windows;
      }
    }
    std::map<std::vector<float>, int> seen;
    Random random(7);
    const int draws = 20000;
    for (int i = 0; i < draws; ++i) ++seen[augmented({.crop_padding = padding, .flip = true}, random)];
    for (const auto& [result, times] : seen) ASSERT_TRUE(share.contains(result)) << "no window, padding " << padding;
    for (const auto& [result, part] : share) {
      const double due = part * draws;
      EXPECT_NEAR(seen[result], due, 6 * std::sqrt(due) + 1) << "padding " << padding;
    }
  }
}

TEST(Augment, FlipsHalfOfAll) {
  Random random(3);
  int flipped = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto out = augmented({.flip = true}, random);
    if (out == reference(0, 0, true)) {
      ++flipped;
    } else {
      ASSERT_EQ(out, reference(0, 0, false));
    }
  }
  EXPECT_NEAR(flipped, 500, 100);
}

/// The definition of a reflected border, with the image's pixels unfolded one by one.
std::vector<float> reflected(int top, int left) {
  const auto pixels = image();
  const auto fold = [](int i, int n) {
    while (i < 0 || i >= n) i = i < 0 ? -i : 2 * n - 2 - i;
    return i;
  };
  std::vector<float> out;
  for (int c = 0; c < shape.channels; ++c) {
    for (int y = 0; y < shape.height; ++y) {
      for (int x = 0; x < shape.width; ++x) {
        const int at = (c * shape.height + fold(y + top, shape.height)) * shape.width + fold(x + left, shape.width);
        out.push_back(expected(pixels[static_cast<std::size_t>(at)], c));
      }
    }
  }
  return out;
}

TEST(Augment, ReflectsAtTheBorder) {
  for (const int padding : {1, 2, 4}) {
    std::map<std::vector<float>, int> seen;
    Random random(7);
    for (int i = 0; i < 5000; ++i) ++seen[augmented({.crop_padding = padding, .border = Border::reflected}, random)];
    std::map<std::vector<float>, int> due;
    for (int top = -padding; top <= padding; ++top) {
      for (int left = -padding; left <= padding; ++left) ++due[reflected(top, left)];
    }
    EXPECT_EQ(seen.size(), due.size()) << "padding " << padding;
    for (const auto& [result, times] : seen) EXPECT_TRUE(due.contains(result)) << "no window, padding " << padding;
  }
  Random random(1);
  EXPECT_THROW(augmented({.crop_padding = 5, .border = Border::reflected}, random), Error);
}

TEST(Augment, AlternatesFlipsByEpoch) {
  const AugmentOptions alternate{.flip = true, .alternate = true};
  int first = 0;
  for (std::uint32_t sample = 0; sample < 1000; ++sample) {
    const bool in_first = decided_flip(alternate, 5, 0, sample).value();
    first += in_first;
    for (std::uint32_t epoch = 1; epoch < 5; ++epoch) {
      ASSERT_EQ(decided_flip(alternate, 5, epoch, sample).value(), in_first == (epoch % 2 == 0)) << sample;
    }
  }
  EXPECT_NEAR(first, 500, 100);
  EXPECT_FALSE(decided_flip({.flip = true}, 5, 0, 1).has_value());
  EXPECT_FALSE(decided_flip({.alternate = true}, 5, 0, 1).has_value());

  const auto pixels = image();
  std::vector<float> out(pixels.size());
  for (const bool flipped : {false, true}) {
    Random random(1);
    augment(pixels, shape, alternate, normalisation, random, out, flipped);
    EXPECT_EQ(out, reference(0, 0, flipped));
  }
}

TEST(Augment, RefusesWhatCannotBe) {
  Random random(1);
  EXPECT_THROW(augmented({.crop_padding = -1}, random), Error);
  std::vector<std::uint8_t> pixels(8);
  std::vector<float> out(8), less(7);
  EXPECT_THROW(augment(pixels, {4, 2, 1}, {}, normalisation, random, out), Error);
  EXPECT_THROW(augment(pixels, {2, 2, 2}, {}, normalisation, random, less), Error);
}

}  // namespace
}  // namespace ripieno::data
