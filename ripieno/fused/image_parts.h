// Divides a batch of images (N x H x W x C in memory) among LibTorch's threads: by images, by pixels, and for sums over
// pixels.
#pragma once

#include <algorithm>
#include <vector>

#include "ripieno/core/range.h"
#include "ripieno/fused/threads.h"
#include "ripieno/kernels/image_kernels.h"

namespace ripieno::fused {

/// images.count images of a batch, from image `first` on.
struct ImagePart {
  std::size_t first = 0;
  kernels::Images images;
  /// The ranges of their numbers in the batch, and of their results after pooling.
  Range elements() const { return of(images); }
  Range pooled() const { return of(images.pooled()); }

 private:
  Range of(kernels::Images some) const {
    const std::size_t each = some.height * some.width * some.channels;
    return {first * each, (first + some.count) * each};
  }
};

/// Calls body(Range) with ranges of `count` items of so many numbers each, one range per thread if that is worthwhile.
template <class Body>
void over_parts(std::size_t count, std::size_t numbers, Body body) {
  constexpr std::size_t worthwhile = 1 << 15;
  over_threads(static_cast<std::int64_t>(count),
               static_cast<std::int64_t>(worthwhile / std::max<std::size_t>(numbers, 1) + 1),
               [&](std::int64_t begin, std::int64_t end) {
                 body(Range{static_cast<std::size_t>(begin), static_cast<std::size_t>(end)});
               });
}

/// Calls body(ImagePart).
template <class Body>
void over_images(kernels::Images batch, Body body) {
  over_parts(batch.count, batch.height * batch.width * batch.channels, [&](Range range) {
    kernels::Images some = batch;
    some.count = range.size();
    body(ImagePart{range.begin, some});
  });
}

/// Calls body(Range) with ranges of elements that hold whole pixels.
template <class Body>
void over_pixels(kernels::Images batch, Body body) {
  const std::size_t channels = batch.channels;
  over_parts(batch.elements() / channels, channels, [&](Range pixels) {
    body(Range{pixels.begin * channels, pixels.end * channels});
  });
}

/// Two sums of each channel.
struct ChannelSums {
  std::vector<double> first, second;
};

/// body(Range, first, second) adds up over elements of whole pixels. Neither the parts nor the order of adding their
/// sums depends on the number of threads, so the result does not either.
template <class Body>
ChannelSums sum_over_pixels(kernels::Images batch, Body body) {
  constexpr std::size_t worthwhile = 1 << 16, most = 64;
  const std::size_t channels = batch.channels, parts = std::clamp<std::size_t>(batch.elements() / worthwhile, 1, most);
  std::vector<ChannelSums> sums(parts, {std::vector<double>(channels), std::vector<double>(channels)});
  over_threads(static_cast<std::int64_t>(parts), 1, [&](std::int64_t first, std::int64_t end) {
    for (auto part = static_cast<std::size_t>(first); part < static_cast<std::size_t>(end); ++part) {
      const Range pixels = chunk(batch.elements() / channels, static_cast<int>(parts), static_cast<int>(part));
      body(Range{pixels.begin * channels, pixels.end * channels}, sums[part].first.data(), sums[part].second.data());
    }
  });
  for (std::size_t part = 1; part < parts; ++part) {
    for (std::size_t c = 0; c < channels; ++c) {
      sums[0].first[c] += sums[part].first[c];
      sums[0].second[c] += sums[part].second[c];
    }
  }
  return std::move(sums[0]);
}

}  // namespace ripieno::fused
