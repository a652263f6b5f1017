#include "ripieno/numeric/elementwise.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ripieno/numeric/elementwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ripieno/numeric/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ripieno::numeric::HWY_NAMESPACE {
// The three forms of the kernels here; each processes whole vectors, then the rest through a small padded buffer.
template <class To, class From, class Body>
HWY_INLINE void over(To* to, const From* from, std::size_t n, std::size_t lanes, Body body) {
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) body(to + i, from + i);
  if (i == n) return;
  HWY_ALIGN To last_to[HWY_MAX_BYTES / 2] = {};
  HWY_ALIGN From last_from[HWY_MAX_BYTES / 2] = {};
  std::memcpy(last_to, to + i, (n - i) * sizeof(To));
  std::memcpy(last_from, from + i, (n - i) * sizeof(From));
  body(last_to, last_from);
  std::memcpy(to + i, last_to, (n - i) * sizeof(To));
}

const hn::ScalableTag<double> f64;
#if HWY_ARCH_X86 && HWY_TARGET >= HWY_SSE4
// Without F16C. Highway 1.0 has conversions here that know neither infinity nor NaN and round towards zero.
const hn::RebindToSigned<decltype(u32)> i32;

/// Where the numbers without a sign have bits above `bound`.
HWY_INLINE auto above(hn::Vec<decltype(u32)> bits, std::uint32_t bound) {
  return hn::RebindMask(u32, hn::Gt(hn::BitCast(i32, bits), hn::Set(i32, static_cast<std::int32_t>(bound))));
}
HWY_INLINE hn::Vec<decltype(f32)> widened(const hwy::float16_t* from) {
  const auto half = hn::PromoteTo(u32, hn::LoadU(u16, reinterpret_cast<const std::uint16_t*>(from)));
  const auto bits = hn::ShiftLeft<13>(hn::And(half, hn::Set(u32, 0x7FFF)));  // its exponent is 112 too small
  const auto normal = hn::Add(bits, hn::Set(u32, 112u << 23));
  // Denormal ones have no leading 1: it is added and taken away, with the exponent of the least normal number.
  const auto with_one = hn::BitCast(f32, hn::Or(bits, hn::Set(u32, 0x38800000)));
  const auto denormal = hn::BitCast(u32, hn::Sub(with_one, hn::Set(f32, 0x1p-14f)));
  const auto finite = hn::IfThenElse(above(bits, 0x007FFFFF), normal, denormal);
  const auto endless = hn::Or(bits, hn::Set(u32, 0x7F800000));  // infinity and NaN
  const auto number = hn::IfThenElse(above(bits, 0x0F7FFFFF), endless, finite);
  return hn::BitCast(f32, hn::Or(number, hn::ShiftLeft<16>(hn::And(half, hn::Set(u32, 0x8000)))));
}
HWY_INLINE void narrowed(hwy::float16_t* to, hn::Vec<decltype(f32)> wide) {
  const auto bits = hn::BitCast(u32, wide), number = hn::And(bits, hn::Set(u32, 0x7FFFFFFF));
  // Normal numbers: the exponent less 112; half of the last place, less one bit if that is even, carries into it.
  const auto odd = hn::And(hn::ShiftRight<13>(number), hn::Set(u32, 1));
  const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(number, odd), hn::Set(u32, 0xC8000FFF)));
  // Denormal ones: the last place of 0.5 in fp32 is theirs, so that the addition rounds.
  const auto added = hn::Add(hn::BitCast(f32, number), hn::Set(f32, 0.5f));
  const auto denormal = hn::Sub(hn::BitCast(u32, added), hn::Set(u32, 0x3F000000));
  auto half = hn::IfThenElse(above(number, 0x387FFFFF), normal, denormal);
  half = hn::IfThenElse(above(number, 0x477FEFFF), hn::Set(u32, 0x7C00), half);  // from 65520 on
  half = hn::IfThenElse(above(number, 0x7F800000), hn::Set(u32, 0x7E00), half);  // NaN
  half = hn::Or(half, hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 0x8000)));
  hn::StoreU(hn::DemoteTo(u16, hn::BitCast(i32, half)), u16, reinterpret_cast<std::uint16_t*>(to));
}
#else
const hn::Rebind<hwy::float16_t, decltype(f32)> f16;
HWY_INLINE hn::Vec<decltype(f32)> widened(const hwy::float16_t* from) {
  return hn::PromoteTo(f32, hn::LoadU(f16, from));
}
HWY_INLINE void narrowed(hwy::float16_t* to, hn::Vec<decltype(f32)> wide) {
  hn::StoreU(hn::DemoteTo(f16, wide), f16, to);
}
#endif

void AddFp32(float* to, const float* from, std::size_t n) {
  over(to, from, n, hn::Lanes(f32),
       [](float* t, const float* f) HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(f32, t), hn::LoadU(f32, f)), f32, t); });
}
void AddFp64(double* to, const double* from, std::size_t n) {
  over(to, from, n, hn::Lanes(f64),
       [](double* t, const double* f) HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(f64, t), hn::LoadU(f64, f)), f64, t); });
}
template <class D, class T>
HWY_INLINE void add_to_both(D d, T* a, T* b, std::size_t n) {
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto sum = hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i));
    hn::StoreU(sum, d, a + i);
    hn::StoreU(sum, d, b + i);
  }
  for (; i < n; ++i) a[i] = b[i] = a[i] + b[i];
}
void AddToBothFp32(float* a, float* b, std::size_t n) { add_to_both(f32, a, b, n); }
void AddToBothFp64(double* a, double* b, std::size_t n) { add_to_both(f64, a, b, n); }
template <class D, class T>
HWY_INLINE void subtract(D d, T* into, const T* a, const T* b, std::size_t n) {
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::Sub(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, into + i);
  for (; i < n; ++i) into[i] = a[i] - b[i];
}
void SubtractFp32(float* into, const float* a, const float* b, std::size_t n) { subtract(f32, into, a, b, n); }
void SubtractFp64(double* into, const double* a, const double* b, std::size_t n) { subtract(f64, into, a, b, n); }
template <class D, class T>
HWY_INLINE void carry_over(D d, T* into, const T* from, const T* to, std::size_t n) {
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto beyond = hn::Sub(hn::LoadU(d, into + i), hn::LoadU(d, from + i));
    hn::StoreU(hn::Add(beyond, hn::LoadU(d, to + i)), d, into + i);
  }
  for (; i < n; ++i) into[i] = (into[i] - from[i]) + to[i];
}
void CarryOverFp32(float* into, const float* from, const float* to, std::size_t n) {
  carry_over(f32, into, from, to, n);
}
void CarryOverFp64(double* into, const double* from, const double* to, std::size_t n) {
  carry_over(f64, into, from, to, n);
}
void AddFp16(float* to, const hwy::float16_t* from, std::size_t n) {
  over(to, from, n, hn::Lanes(f32),
       [](float* t, const hwy::float16_t* f) HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(f32, t), widened(f)), f32, t); });
}
void AddBf16(float* to, const std::uint16_t* from, std::size_t n) {
  over(to, from, n, hn::Lanes(f32),
       [](float* t, const std::uint16_t* f) HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(f32, t), load(f)), f32, t); });
}
void Fp32FromFp16(float* to, const hwy::float16_t* from, std::size_t n) {
  over(to, from, n, hn::Lanes(f32), [](float* t, const hwy::float16_t* f) HWY_ATTR { hn::StoreU(widened(f), f32, t); });
}
void Fp32FromBf16(float* to, const std::uint16_t* from, std::size_t n) {
  over(to, from, n, hn::Lanes(f32), [](float* t, const std::uint16_t* f) HWY_ATTR { hn::StoreU(load(f), f32, t); });
}
void Fp16FromFp32(hwy::float16_t* to, const float* from, std::size_t n) {
  over(to, from, n, hn::Lanes(f32), [](hwy::float16_t* t, const float* f) HWY_ATTR { narrowed(t, hn::LoadU(f32, f)); });
}
void Bf16FromFp32(std::uint16_t* to, const float* from, std::size_t n) {
  over(to, from, n, hn::Lanes(f32), [](std::uint16_t* t, const float* f) HWY_ATTR { store(t, hn::LoadU(f32, f)); });
}
void ScaleFp32(float* to, const float* from, std::size_t n, float factor) {
  over(to, from, n, hn::Lanes(f32), [factor](float* t, const float* f) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(f32, f), hn::Set(f32, factor)), f32, t);
  });
}
void ScaleFp64(double* to, const double* from, std::size_t n, double factor) {
  over(to, from, n, hn::Lanes(f64), [factor](double* t, const double* f) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(f64, f), hn::Set(f64, factor)), f64, t);
  });
}

// x * 0 is 0 for finite x and NaN for all others.
template <class D, class T>
HWY_INLINE bool finite(D d, const T* from, std::size_t n) {
  auto zeros = hn::Zero(d);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) zeros = hn::MulAdd(hn::LoadU(d, from + i), hn::Zero(d), zeros);
  T rest = 0;
  for (; i < n; ++i) rest += from[i] * 0;
  return rest == 0 && hn::AllTrue(d, hn::Eq(zeros, hn::Zero(d)));
}
bool FiniteFp32(const float* from, std::size_t n) { return finite(f32, from, n); }
bool FiniteFp64(const double* from, std::size_t n) { return finite(f64, from, n); }

}  // namespace ripieno::numeric::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ripieno::numeric {

HWY_EXPORT(AddFp32);
HWY_EXPORT(AddFp64);
HWY_EXPORT(AddToBothFp32);
HWY_EXPORT(AddToBothFp64);
HWY_EXPORT(SubtractFp32);
HWY_EXPORT(SubtractFp64);
HWY_EXPORT(CarryOverFp32);
HWY_EXPORT(CarryOverFp64);
HWY_EXPORT(AddFp16);
HWY_EXPORT(AddBf16);
HWY_EXPORT(Fp32FromFp16);
HWY_EXPORT(Fp32FromBf16);
HWY_EXPORT(Fp16FromFp32);
HWY_EXPORT(Bf16FromFp32);
HWY_EXPORT(ScaleFp32);
HWY_EXPORT(ScaleFp64);
HWY_EXPORT(FiniteFp32);
HWY_EXPORT(FiniteFp64);

namespace {

float* f32(NumberSpan s) { return static_cast<float*>(s.data); }
double* f64(NumberSpan s) { return static_cast<double*>(s.data); }
hwy::float16_t* f16(NumberSpan s) { return static_cast<hwy::float16_t*>(s.data); }
std::uint16_t* bf16(NumberSpan s) { return static_cast<std::uint16_t*>(s.data); }

constexpr std::size_t block = 512;

/// Combines one type with another through fp32, a block at a time. Rare (tests with a narrow wire type, means of bf16),
/// so kept simple.
template <class Body>
void by_way_of_fp32(NumberSpan wide, NumberSpan narrow, Body body) {
  float middle[block];
  for (std::size_t i = 0; i < wide.count; i += block) {
    const std::size_t end = std::min(i + block, wide.count);
    body(wide.slice(i, end), NumberSpan(std::span<float>(middle, end - i)), narrow.slice(i, end));
  }
}

[[noreturn]] void unsupported(const char* what, NumberSpan into, NumberSpan from) {
  fail(ErrorKind::internal, what, " has no kernel from ", name(from.type), " to ", name(into.type));
}

/// Calls the kernel for spans that are all fp32, or all fp64.
void of_one_type(const char* what, NumberSpan into, NumberSpan a, NumberSpan b,
                 void (&fp32)(float*, const float*, const float*, std::size_t),
                 void (&fp64)(double*, const double*, const double*, std::size_t)) {
  require(into.count == a.count && into.count == b.count, what, " of ", a.count, " and ", b.count, " elements into ",
          into.count);
  if (!into.data || !a.data || !b.data || into.count == 0) return;
  if (a.type != into.type || b.type != into.type) unsupported(what, into, a.type == into.type ? b : a);
  if (into.type == DType::fp32) return fp32(f32(into), f32(a), f32(b), into.count);
  if (into.type == DType::fp64) return fp64(f64(into), f64(a), f64(b), into.count);
  unsupported(what, into, a);
}

}  // namespace

void add(NumberSpan into, NumberSpan from) {
  require(into.count == from.count, "add of ", from.count, " elements into ", into.count);
  if (!into.data || !from.data || into.count == 0) return;
  if (into.type == DType::fp32 && from.type == DType::fp32)
    return HWY_DYNAMIC_DISPATCH(AddFp32)(f32(into), f32(from), into.count);
  if (into.type == DType::fp64 && from.type == DType::fp64)
    return HWY_DYNAMIC_DISPATCH(AddFp64)(f64(into), f64(from), into.count);
  if (into.type == DType::fp32 && from.type == DType::fp16)
    return HWY_DYNAMIC_DISPATCH(AddFp16)(f32(into), f16(from), into.count);
  if (into.type == DType::fp32 && from.type == DType::bf16)
    return HWY_DYNAMIC_DISPATCH(AddBf16)(f32(into), bf16(from), into.count);
  if (into.type == DType::fp32 && from.type == DType::fp64) {
    for (std::size_t i = 0; i < into.count; ++i) f32(into)[i] = static_cast<float>(f32(into)[i] + f64(from)[i]);
    return;
  }
  if (into.type != DType::fp64) unsupported("add", into, from);
  by_way_of_fp32(into, from, [](NumberSpan wide, NumberSpan middle, NumberSpan narrow) {
    convert(middle, narrow);
    for (std::size_t i = 0; i < wide.count; ++i) f64(wide)[i] += f32(middle)[i];
  });
}

void add_to_both(NumberSpan a, NumberSpan b) {
  require(a.count == b.count, "add of ", b.count, " elements into ", a.count);
  if (!a.data || !b.data || a.count == 0) return;
  if (a.type == DType::fp32 && b.type == DType::fp32) {
    HWY_DYNAMIC_DISPATCH(AddToBothFp32)(f32(a), f32(b), a.count);
  } else if (a.type == DType::fp64 && b.type == DType::fp64) {
    HWY_DYNAMIC_DISPATCH(AddToBothFp64)(f64(a), f64(b), a.count);
  } else {
    unsupported("add to both", a, b);
  }
}

void subtract(NumberSpan into, NumberSpan a, NumberSpan b) {
  of_one_type("subtraction", into, a, b, HWY_DYNAMIC_DISPATCH(SubtractFp32), HWY_DYNAMIC_DISPATCH(SubtractFp64));
}

void carry_over(NumberSpan into, NumberSpan from, NumberSpan to) {
  of_one_type("carrying over", into, from, to, HWY_DYNAMIC_DISPATCH(CarryOverFp32),
              HWY_DYNAMIC_DISPATCH(CarryOverFp64));
}

void convert(NumberSpan into, NumberSpan from) {
  require(into.count == from.count, "conversion of ", from.count, " elements into ", into.count);
  if (!into.data || !from.data || into.count == 0 || into.data == from.data) return;
  if (into.type == from.type) {
    std::memcpy(into.data, from.data, into.size_bytes());
  } else if (into.type == DType::fp32 && from.type == DType::fp16) {
    HWY_DYNAMIC_DISPATCH(Fp32FromFp16)(f32(into), f16(from), into.count);
  } else if (into.type == DType::fp32 && from.type == DType::bf16) {
    HWY_DYNAMIC_DISPATCH(Fp32FromBf16)(f32(into), bf16(from), into.count);
  } else if (into.type == DType::fp16 && from.type == DType::fp32) {
    HWY_DYNAMIC_DISPATCH(Fp16FromFp32)(f16(into), f32(from), into.count);
  } else if (into.type == DType::bf16 && from.type == DType::fp32) {
    HWY_DYNAMIC_DISPATCH(Bf16FromFp32)(bf16(into), f32(from), into.count);
  } else if (into.type == DType::fp32 && from.type == DType::fp64) {
    for (std::size_t i = 0; i < into.count; ++i) f32(into)[i] = static_cast<float>(f64(from)[i]);
  } else if (into.type == DType::fp64 && from.type == DType::fp32) {
    for (std::size_t i = 0; i < into.count; ++i) f64(into)[i] = f32(from)[i];
  } else if (into.type == DType::fp64) {
    by_way_of_fp32(into, from, [](NumberSpan wide, NumberSpan middle, NumberSpan narrow) {
      convert(middle, narrow);
      convert(wide, middle);
    });
  } else if (from.type == DType::fp64) {
    by_way_of_fp32(from, into, [](NumberSpan wide, NumberSpan middle, NumberSpan narrow) {
      convert(middle, wide);
      convert(narrow, middle);
    });
  } else {
    unsupported("conversion", into, from);
  }
}

void scale(NumberSpan values, double factor) {
  if (!values.data || values.count == 0 || factor == 1.0) return;
  if (values.type == DType::fp32) {
    HWY_DYNAMIC_DISPATCH(ScaleFp32)(f32(values), f32(values), values.count, static_cast<float>(factor));
  } else if (values.type == DType::fp64) {
    HWY_DYNAMIC_DISPATCH(ScaleFp64)(f64(values), f64(values), values.count, factor);
  } else if (is_float(values.type)) {
    by_way_of_fp32(values, values, [=](NumberSpan part, NumberSpan middle, NumberSpan) {
      convert(middle, part);
      scale(middle, factor);
      convert(part, middle);
    });
  } else {
    unsupported("scaling", values, values);
  }
}

void round_through(NumberSpan values, DType type) {
  if (!values.data || size_of(type) >= size_of(values.type)) return;
  std::uint64_t memory[block];  // large enough for a block of any type, and aligned
  for (std::size_t i = 0; i < values.count; i += block) {
    const NumberSpan part = values.slice(i, std::min(i + block, values.count));
    const NumberSpan narrow(memory, part.count, type);
    convert(narrow, part);
    convert(part, narrow);
  }
}

bool all_finite(NumberSpan values) {
  if (!values.data || values.count == 0) return true;
  if (values.type == DType::fp32) return HWY_DYNAMIC_DISPATCH(FiniteFp32)(f32(values), values.count);
  if (values.type == DType::fp64) return HWY_DYNAMIC_DISPATCH(FiniteFp64)(f64(values), values.count);
  unsupported("a look for infinities", values, values);
}

std::uint64_t hash(NumberSpan values) {
  return ripieno::hash(values.data ? std::string_view(static_cast<const char*>(values.data), values.size_bytes()) : "");
}

}  // namespace ripieno::numeric
#endif  // HWY_ONCE
