#include "ripieno/kernels/image_kernels.h"

#include <cstring>
#include <initializer_list>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ripieno/kernels/image_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ripieno/numeric/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ripieno::kernels::HWY_NAMESPACE {
using namespace numeric::HWY_NAMESPACE;
const hn::Rebind<std::uint8_t, decltype(f32)> u8;

constexpr std::size_t window = 4;

/// One vector of channels of one window.
template <bool relu, class T>
HWY_INLINE void choose(T* out, std::uint8_t* chosen, const T* const in[window]) {
  auto largest = load(in[0]);
  auto which = hn::Zero(u32);
  for (std::uint32_t k = 1; k < window; ++k) {
    const auto value = load(in[k]);
    const auto better = hn::Or(hn::Gt(value, largest), hn::IsNaN(value));
    largest = hn::IfThenElse(better, value, largest);
    which = hn::IfThenElse(hn::RebindMask(u32, better), hn::Set(u32, k), which);
  }
  if constexpr (relu) {
    const auto off = hn::Le(largest, hn::Zero(f32));
    largest = hn::IfThenZeroElse(off, largest);
    which = hn::IfThenElse(hn::RebindMask(u32, off), hn::Set(u32, window), which);
  }
  store(out, largest);
  hn::StoreU(hn::DemoteTo(u8, hn::BitCast(hn::RebindToSigned<U32>(), which)), u8, chosen);
}

template <class T>
HWY_INLINE void spread(T* const in[window], const T* out, const std::uint8_t* chosen) {
  const auto gradient = load(out);
  const auto which = hn::PromoteTo(u32, hn::LoadU(u8, chosen));
  for (std::uint32_t k = 0; k < window; ++k) {
    store(in[k], hn::IfThenElseZero(hn::RebindMask(f32, hn::Eq(which, hn::Set(u32, k))), gradient));
  }
}

/// The offsets of a window's four corners from its first.
HWY_INLINE void offsets(Images shape, std::size_t (&found)[window]) {
  found[0] = 0;
  found[1] = shape.channels;
  found[2] = shape.width * shape.channels;
  found[3] = found[2] + shape.channels;
}

template <bool relu, class T>
HWY_INLINE void forward(T* out, std::uint8_t* chosen, const T* in, Images shape) {
  const std::size_t lanes = hn::Lanes(f32), whole = shape.channels / lanes * lanes;
  std::size_t corner[window];
  offsets(shape, corner);
  HWY_ALIGN T last_in[window][HWY_MAX_BYTES / sizeof(float)] = {};
  HWY_ALIGN T last_out[HWY_MAX_BYTES / sizeof(float)];
  HWY_ALIGN std::uint8_t last_chosen[HWY_MAX_BYTES / sizeof(float)];
  const T* const last[window] = {last_in[0], last_in[1], last_in[2], last_in[3]};
  for (std::size_t n = 0; n < shape.count; ++n) {
    for (std::size_t y = 0; y < shape.height / 2; ++y) {
      const T* first = in + (n * shape.height + 2 * y) * shape.width * shape.channels;
      for (std::size_t x = 0; x < shape.width / 2; ++x, first += 2 * shape.channels) {
        for (std::size_t c = 0; c < whole; c += lanes) {
          const T* const at[window] = {first + c, first + corner[1] + c, first + corner[2] + c, first + corner[3] + c};
          choose<relu>(out + c, chosen + c, at);
        }
        if (const std::size_t rest = shape.channels - whole) {
          for (std::size_t k = 0; k < window; ++k) std::memcpy(last_in[k], first + corner[k] + whole, rest * sizeof(T));
          choose<relu>(last_out, last_chosen, last);
          std::memcpy(out + whole, last_out, rest * sizeof(T));
          std::memcpy(chosen + whole, last_chosen, rest);
        }
        out += shape.channels;
        chosen += shape.channels;
      }
    }
  }
}

template <class T>
HWY_INLINE void backward(T* in, const T* out, const std::uint8_t* chosen, Images shape) {
  const std::size_t lanes = hn::Lanes(f32), whole = shape.channels / lanes * lanes, row = shape.width * shape.channels;
  std::size_t corner[window];
  offsets(shape, corner);
  HWY_ALIGN T last_in[window][HWY_MAX_BYTES / sizeof(float)];
  HWY_ALIGN T last_out[HWY_MAX_BYTES / sizeof(float)] = {};
  HWY_ALIGN std::uint8_t last_chosen[HWY_MAX_BYTES / sizeof(float)] = {};
  T* const last[window] = {last_in[0], last_in[1], last_in[2], last_in[3]};
  for (std::size_t n = 0; n < shape.count; ++n) {
    for (std::size_t y = 0; y < shape.height / 2; ++y) {
      T* first = in + (n * shape.height + 2 * y) * row;
      for (std::size_t x = 0; x < shape.width / 2; ++x, first += 2 * shape.channels) {
        for (std::size_t c = 0; c < whole; c += lanes) {
          T* const at[window] = {first + c, first + corner[1] + c, first + corner[2] + c, first + corner[3] + c};
          spread(at, out + c, chosen + c);
        }
        if (const std::size_t rest = shape.channels - whole) {
          std::memcpy(last_out, out + whole, rest * sizeof(T));
          std::memcpy(last_chosen, chosen + whole, rest);
          spread(last, last_out, last_chosen);
          for (std::size_t k = 0; k < window; ++k) std::memcpy(first + corner[k] + whole, last_in[k], rest * sizeof(T));
        }
        out += shape.channels;
        chosen += shape.channels;
      }
      if (shape.width % 2) {  // a last column outside all windows
        std::memset(first, 0, shape.channels * sizeof(T));
        std::memset(first + row, 0, shape.channels * sizeof(T));
      }
    }
    if (shape.height % 2) std::memset(in + (n * shape.height + shape.height - 1) * row, 0, row * sizeof(T));
  }
}

/// Calls body(c, n) for every vector of channels; n is the number of lanes, fewer in the last vector.
template <class Body>
HWY_INLINE void over_channels(std::size_t channels, Body body) {
  const std::size_t lanes = hn::Lanes(f32);
  for (std::size_t c = 0; c < channels; c += lanes) body(c, channels - c < lanes ? channels - c : lanes);
}

/// first[c], second[c] = sums over all pixels of the pair of vectors that body(pixel, c, n) returns. Sums of a block
/// stay in registers in fp32; blocks are added up in fp64. A block fits the L1 cache, whose lines are read in order.
template <class Body>
HWY_INLINE void sum_over_pixels(std::size_t pixels, std::size_t channels, double* first, double* second, Body body) {
  HWY_ALIGN float one[HWY_MAX_BYTES / sizeof(float)], two[HWY_MAX_BYTES / sizeof(float)];
  std::memset(first, 0, channels * sizeof(double));
  std::memset(second, 0, channels * sizeof(double));
  const std::size_t block = channels < 512 ? 8192 / channels : 16;
  for (std::size_t begin = 0; begin < pixels; begin += block) {
    const std::size_t end = pixels - begin < block ? pixels : begin + block;
    over_channels(channels, [&](std::size_t c, std::size_t n) HWY_ATTR {
      auto a = hn::Zero(f32), b = hn::Zero(f32);
      for (std::size_t p = begin; p < end; ++p) body(p, c, n, a, b);
      store(one, a);
      store(two, b);
      for (std::size_t i = 0; i < n; ++i) {
        first[c + i] += one[i];
        second[c + i] += two[i];
      }
    });
  }
}

template <class T>
HWY_INLINE void find_moment_sums(const T* in, const float* about, std::size_t pixels, std::size_t channels, double* sum,
                                 double* square) {
  sum_over_pixels(pixels, channels, sum, square, [&](std::size_t p, std::size_t c, std::size_t n, V& a, V& b) HWY_ATTR {
    const auto distance = hn::Sub(load_some(in + p * channels + c, n), load_some(about + c, n));
    a = hn::Add(a, distance);
    b = hn::MulAdd(distance, distance, b);
  });
}

template <class T>
HWY_INLINE void scale_all(T* out, const T* in, std::size_t pixels, std::size_t channels, const float* scale,
                          const float* offset, const T* more, bool relu) {
  for (std::size_t p = 0; p < pixels; ++p) {
    over_channels(channels, [&](std::size_t c, std::size_t n) HWY_ATTR {
      const std::size_t at = p * channels + c;
      auto value = hn::MulAdd(load_some(in + at, n), load_some(scale + c, n), load_some(offset + c, n));
      if (more) value = hn::Add(value, load_some(more + at, n));
      if (relu) value = hn::IfThenZeroElse(hn::Lt(value, hn::Zero(f32)), value);
      store_some(out + at, value, n);
    });
  }
}

template <class T>
HWY_INLINE void find_gradient_sums(T* gradient, const T* result, const T* in, const float* mean, std::size_t pixels,
                                   std::size_t channels, double* sum, double* product) {
  sum_over_pixels(pixels, channels, sum, product,
                  [&](std::size_t p, std::size_t c, std::size_t n, V& a, V& b) HWY_ATTR {
                    const std::size_t at = p * channels + c;
                    auto g = load_some(gradient + at, n);
                    if (result) {
                      g = hn::IfThenZeroElse(hn::Le(load_some(result + at, n), hn::Zero(f32)), g);
                      store_some(gradient + at, g, n);
                    }
                    a = hn::Add(a, g);
                    b = hn::MulAdd(g, hn::Sub(load_some(in + at, n), load_some(mean + c, n)), b);
                  });
}

template <class T>
HWY_INLINE void combine_all(T* out, const T* gradient, const T* in, std::size_t pixels, std::size_t channels,
                            const float* a, const float* b, const float* c) {
  for (std::size_t p = 0; p < pixels; ++p) {
    over_channels(channels, [&](std::size_t k, std::size_t n) HWY_ATTR {
      const std::size_t at = p * channels + k;
      const auto rest = hn::MulAdd(load_some(in + at, n), load_some(b + k, n), load_some(c + k, n));
      store_some(out + at, hn::MulAdd(load_some(gradient + at, n), load_some(a + k, n), rest), n);
    });
  }
}

void MomentSumsFp32(const float* in, const float* about, std::size_t pixels, std::size_t channels, double* sum,
                    double* square) {
  find_moment_sums(in, about, pixels, channels, sum, square);
}
void MomentSumsBf16(const std::uint16_t* in, const float* about, std::size_t pixels, std::size_t channels, double* sum,
                    double* square) {
  find_moment_sums(in, about, pixels, channels, sum, square);
}
void ScaleChannelsFp32(float* out, const float* in, std::size_t pixels, std::size_t channels, const float* scale,
                       const float* offset, const float* more, bool relu) {
  scale_all(out, in, pixels, channels, scale, offset, more, relu);
}
void ScaleChannelsBf16(std::uint16_t* out, const std::uint16_t* in, std::size_t pixels, std::size_t channels,
                       const float* scale, const float* offset, const std::uint16_t* more, bool relu) {
  scale_all(out, in, pixels, channels, scale, offset, more, relu);
}
void GradientSumsFp32(float* gradient, const float* result, const float* in, const float* mean, std::size_t pixels,
                      std::size_t channels, double* sum, double* product) {
  find_gradient_sums(gradient, result, in, mean, pixels, channels, sum, product);
}
void GradientSumsBf16(std::uint16_t* gradient, const std::uint16_t* result, const std::uint16_t* in, const float* mean,
                      std::size_t pixels, std::size_t channels, double* sum, double* product) {
  find_gradient_sums(gradient, result, in, mean, pixels, channels, sum, product);
}
void CombineFp32(float* out, const float* gradient, const float* in, std::size_t pixels, std::size_t channels,
                 const float* a, const float* b, const float* c) {
  combine_all(out, gradient, in, pixels, channels, a, b, c);
}
void CombineBf16(std::uint16_t* out, const std::uint16_t* gradient, const std::uint16_t* in, std::size_t pixels,
                 std::size_t channels, const float* a, const float* b, const float* c) {
  combine_all(out, gradient, in, pixels, channels, a, b, c);
}

void ForwardFp32(float* out, std::uint8_t* chosen, const float* in, Images shape, bool relu) {
  relu ? forward<true>(out, chosen, in, shape) : forward<false>(out, chosen, in, shape);
}
void ForwardBf16(std::uint16_t* out, std::uint8_t* chosen, const std::uint16_t* in, Images shape, bool relu) {
  relu ? forward<true>(out, chosen, in, shape) : forward<false>(out, chosen, in, shape);
}
void BackwardFp32(float* in, const float* out, const std::uint8_t* chosen, Images shape) {
  backward(in, out, chosen, shape);
}
void BackwardBf16(std::uint16_t* in, const std::uint16_t* out, const std::uint8_t* chosen, Images shape) {
  backward(in, out, chosen, shape);
}

}  // namespace ripieno::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ripieno::kernels {

HWY_EXPORT(ForwardFp32);
HWY_EXPORT(ForwardBf16);
HWY_EXPORT(BackwardFp32);
HWY_EXPORT(BackwardBf16);
HWY_EXPORT(MomentSumsFp32);
HWY_EXPORT(MomentSumsBf16);
HWY_EXPORT(ScaleChannelsFp32);
HWY_EXPORT(ScaleChannelsBf16);
HWY_EXPORT(GradientSumsFp32);
HWY_EXPORT(GradientSumsBf16);
HWY_EXPORT(CombineFp32);
HWY_EXPORT(CombineBf16);

namespace {

void check(NumberSpan out, NumberSpan in, Images shape) {
  require(out.type == in.type && (in.type == DType::fp32 || in.type == DType::bf16), "pooling from ", name(in.type),
          " to ", name(out.type));
  require(in.count == shape.elements() && out.count == shape.pooled().elements(), "pooling of ", in.count,
          " elements into ", out.count);
}

}  // namespace

void max_pool(NumberSpan out, std::uint8_t* chosen, NumberSpan in, Images shape, bool relu) {
  check(out, in, shape);
  if (in.type == DType::fp32) {
    HWY_DYNAMIC_DISPATCH(ForwardFp32)
    (static_cast<float*>(out.data), chosen, static_cast<const float*>(in.data), shape, relu);
  } else {
    HWY_DYNAMIC_DISPATCH(ForwardBf16)
    (static_cast<std::uint16_t*>(out.data), chosen, static_cast<const std::uint16_t*>(in.data), shape, relu);
  }
}

void max_pool_gradient(NumberSpan in, NumberSpan out, const std::uint8_t* chosen, Images shape) {
  check(out, in, shape);
  if (in.type == DType::fp32) {
    HWY_DYNAMIC_DISPATCH(BackwardFp32)
    (static_cast<float*>(in.data), static_cast<const float*>(out.data), chosen, shape);
  } else {
    HWY_DYNAMIC_DISPATCH(BackwardBf16)
    (static_cast<std::uint16_t*>(in.data), static_cast<const std::uint16_t*>(out.data), chosen, shape);
  }
}

namespace {

float* fp32(NumberSpan s) { return static_cast<float*>(s.data); }
std::uint16_t* bf16(NumberSpan s) { return static_cast<std::uint16_t*>(s.data); }

/// The number of pixels; all spans with data must be alike.
std::size_t pixels_of(NumberSpan in, std::size_t channels, std::initializer_list<NumberSpan> others) {
  require(in.type == DType::fp32 || in.type == DType::bf16, "images of ", name(in.type));
  require(channels > 0 && in.count % channels == 0, in.count, " elements of ", channels, " channels");
  for (const NumberSpan other : others) {
    require(!other.data || (other.type == in.type && other.count == in.count), "images of ", in.count, " and ",
            other.count, " elements");
  }
  return in.count / channels;
}

}  // namespace

void moment_sums(NumberSpan in, std::size_t channels, const float* about, double* sum, double* square) {
  const std::size_t pixels = pixels_of(in, channels, {});
  if (in.type == DType::fp32) {
    HWY_DYNAMIC_DISPATCH(MomentSumsFp32)(fp32(in), about, pixels, channels, sum, square);
  } else {
    HWY_DYNAMIC_DISPATCH(MomentSumsBf16)(bf16(in), about, pixels, channels, sum, square);
  }
}

void scale_channels(NumberSpan out, NumberSpan in, std::size_t channels, const float* scale, const float* offset,
                    NumberSpan more, bool relu) {
  const std::size_t pixels = pixels_of(in, channels, {out, more});
  if (in.type == DType::fp32) {
    HWY_DYNAMIC_DISPATCH(ScaleChannelsFp32)(fp32(out), fp32(in), pixels, channels, scale, offset, fp32(more), relu);
  } else {
    HWY_DYNAMIC_DISPATCH(ScaleChannelsBf16)(bf16(out), bf16(in), pixels, channels, scale, offset, bf16(more), relu);
  }
}

void gradient_sums(NumberSpan gradient, NumberSpan result, NumberSpan in, const float* mean, std::size_t channels,
                   double* sum, double* product) {
  const std::size_t pixels = pixels_of(in, channels, {gradient, result});
  if (in.type == DType::fp32) {
    HWY_DYNAMIC_DISPATCH(GradientSumsFp32)
    (fp32(gradient), fp32(result), fp32(in), mean, pixels, channels, sum, product);
  } else {
    HWY_DYNAMIC_DISPATCH(GradientSumsBf16)
    (bf16(gradient), bf16(result), bf16(in), mean, pixels, channels, sum, product);
  }
}

void combine_channels(NumberSpan out, NumberSpan gradient, NumberSpan in, const float* a, const float* b,
                      const float* c, std::size_t channels) {
  const std::size_t pixels = pixels_of(in, channels, {out, gradient});
  if (in.type == DType::fp32) {
    HWY_DYNAMIC_DISPATCH(CombineFp32)(fp32(out), fp32(gradient), fp32(in), pixels, channels, a, b, c);
  } else {
    HWY_DYNAMIC_DISPATCH(CombineBf16)(bf16(out), bf16(gradient), bf16(in), pixels, channels, a, b, c);
  }
}

}  // namespace ripieno::kernels
#endif  // HWY_ONCE
