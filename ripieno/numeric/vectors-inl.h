// Loads and stores vectors of fp32 from and to memory of fp32 or bf16, for files compiled for each kind of processor
// (Highway's foreach_target). bf16 is a std::uint16_t, the upper half of an fp32.
#if defined(RIPIENO_NUMERIC_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIPIENO_NUMERIC_VECTORS_INL_H_
#undef RIPIENO_NUMERIC_VECTORS_INL_H_
#else
#define RIPIENO_NUMERIC_VECTORS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace ripieno::numeric::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

const hn::ScalableTag<float> f32;
using V = hn::Vec<decltype(f32)>;
using U32 = hn::RebindToUnsigned<decltype(f32)>;
const U32 u32;
const hn::Rebind<std::uint16_t, decltype(f32)> u16;

HWY_INLINE V load(const float* from) { return hn::LoadU(f32, from); }
HWY_INLINE V load(const std::uint16_t* from) {
  return hn::BitCast(f32, hn::ShiftLeft<16>(hn::PromoteTo(u32, hn::LoadU(u16, from))));
}

HWY_INLINE void store(float* to, V value) { hn::StoreU(value, f32, to); }
/// Rounds to nearest, ties to even; NaN stays NaN.
HWY_INLINE void store(std::uint16_t* to, V value) {
  const auto bits = hn::BitCast(u32, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(u32, 0x7FFF))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(u32, 0x40));
  const auto found = hn::IfThenElse(hn::RebindMask(u32, hn::IsNaN(value)), quiet, rounded);
  hn::StoreU(hn::DemoteTo(u16, hn::BitCast(hn::RebindToSigned<U32>(), found)), u16, to);
}

/// Loads n of a vector's lanes; the others are 0.
template <class T>
HWY_INLINE V load_some(const T* from, std::size_t n) {
  if (n == hn::Lanes(f32)) return load(from);
  HWY_ALIGN T last[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(last, from, n * sizeof(T));
  return load(last);
}
template <class T>
HWY_INLINE void store_some(T* to, V value, std::size_t n) {
  if (n == hn::Lanes(f32)) return store(to, value);
  HWY_ALIGN T last[HWY_MAX_BYTES / sizeof(float)];
  store(last, value);
  std::memcpy(to, last, n * sizeof(T));
}

}  // namespace ripieno::numeric::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // RIPIENO_NUMERIC_VECTORS_INL_H_
