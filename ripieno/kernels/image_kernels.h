// What networks do to images whose channels lie together (N x H x W x C) besides convolutions: 2 x 2 pooling, with ReLU
// or without, and batch normalisation with ReLU, in as few passes over memory as there can be, vectorised for the
// processor that is found at run time (Highway). fp32 and bf16, computed in fp32; NaN stays NaN.
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

/// out = the largest of each 2 x 2 window, or 0 where `relu` and it is below; `chosen` (an entry an output): which of
/// the window it was, counted 0 1 / 2 3, the first of equal ones, or 4 where ReLU let none pass. `shape` is the
/// input's.
void max_pool(NumberSpan out, std::uint8_t* chosen, NumberSpan in, Images shape, bool relu);

/// Every element of `in`, the gradient by max_pool's input: `out`'s gradient where it was chosen, else 0.
void max_pool_gradient(NumberSpan in, NumberSpan out, const std::uint8_t* chosen, Images shape);

/// Of each channel, over all pixels: sum = that of in - about, square = that of its square. Of parts of an image they
/// add up to the whole's; `about` is best near the mean, since little is lost then.
void moment_sums(NumberSpan in, std::size_t channels, const float* about, double* sum, double* square);

/// out = in * scale + offset, a factor and a summand a channel; `more` (unless without data) is added, and then
/// negative numbers become 0 where `relu`. `out` may be `in`.
void scale_channels(NumberSpan out, NumberSpan in, std::size_t channels, const float* scale, const float* offset,
                    NumberSpan more, bool relu);

/// `gradient` is set to 0 where `result` (unless without data) is not above 0. Then, of each channel over all pixels:
/// sum = that of the gradient, product = that of gradient * (in - mean).
void gradient_sums(NumberSpan gradient, NumberSpan result, NumberSpan in, const float* mean, std::size_t channels,
                   double* sum, double* product);

/// out = gradient * a + in * b + c, three numbers a channel. `out` may be `gradient`.
void combine_channels(NumberSpan out, NumberSpan gradient, NumberSpan in, const float* a, const float* b,
                      const float* c, std::size_t channels);

}  // namespace ripieno::kernels
