// Operations other than convolutions on channels-last images (N x H x W x C): 2 x 2 pooling, with or without ReLU, and
// batch normalisation with ReLU. They take as few passes over memory as possible, vectorised for the processor found at
// run time (Highway). fp32 and bf16, computed in fp32; NaN stays NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ripieno/core/span.h"

namespace ripieno::kernels {

struct Images {
  std::size_t count = 0, height = 0, width = 0, channels = 0;
  std::size_t elements() const { return count * height * width * channels; }
  /// After 2 x 2 pooling of stride 2, rounding down.
  Images pooled() const { return {count, height / 2, width / 2, channels}; }
};

/// out = the largest of each 2 x 2 window, or with `relu` at least 0. `chosen` (one entry per output): the index of
/// that number in the window, counted 0 1 / 2 3, the first of equal ones, or 4 if ReLU made it 0. `shape` is the
/// input's.
void max_pool(NumberSpan out, std::uint8_t* chosen, NumberSpan in, Images shape, bool relu);

/// Fills `in`, the gradient by max_pool's input: the gradient of `out` where the element was chosen, else 0.
void max_pool_gradient(NumberSpan in, NumberSpan out, const std::uint8_t* chosen, Images shape);

/// For each channel, over all pixels: sum = sum of (in - about), square = sum of (in - about)^2. Sums of an image's
/// parts add up to those of the whole. Rounding is least with `about` near the mean.
void moment_sums(NumberSpan in, std::size_t channels, const float* about, double* sum, double* square);

/// out = in * scale + offset, with a scale and an offset per channel; then adds `more` (unless it has no data), and
/// with `relu` sets negative numbers to 0. `out` may be `in`.
void scale_channels(NumberSpan out, NumberSpan in, std::size_t channels, const float* scale, const float* offset,
                    NumberSpan more, bool relu);

/// Sets `gradient` to 0 where `result` (unless it has no data) is not above 0. Then, for each channel over all pixels:
/// sum = sum of gradient, product = sum of gradient * (in - mean).
void gradient_sums(NumberSpan gradient, NumberSpan result, NumberSpan in, const float* mean, std::size_t channels,
                   double* sum, double* product);

/// out = gradient * a + in * b + c, with a, b and c per channel. `out` may be `gradient`.
void combine_channels(NumberSpan out, NumberSpan gradient, NumberSpan in, const float* a, const float* b,
                      const float* c, std::size_t channels);

}  // namespace ripieno::kernels
