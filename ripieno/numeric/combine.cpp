#include "ripieno/numeric/combine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "ripieno/numeric/elementwise.h"

namespace ripieno::numeric {
namespace {

constexpr std::size_t block = 512;

/// Integers as unsigned ones, whose sums and products wrap around.
template <class T>
auto wrapping(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x;
  } else if constexpr (sizeof(T) < sizeof(unsigned)) {
    return static_cast<unsigned>(x);  // promoted to unsigned
  } else {
    return static_cast<std::make_unsigned_t<T>>(x);
  }
}

template <class T, class Body>
void each(T* into, const T* from, std::size_t n, Body body) {
  for (std::size_t i = 0; i < n; ++i) into[i] = body(into[i], from[i]);
}

/// Comparisons with NaN are false: `a` stays if it is NaN, and is replaced if `b` is NaN.
template <class T>
void combine_as(NumberSpan into, NumberSpan from, Reduce how) {
  T* const to = into.as<T>().data();
  const T* const of = from.as<T>().data();
  const std::size_t n = into.count;
  switch (how) {
    case Reduce::add:
      return each(to, of, n, [](T a, T b) { return static_cast<T>(wrapping(a) + wrapping(b)); });
    case Reduce::multiply:
      return each(to, of, n, [](T a, T b) { return static_cast<T>(wrapping(a) * wrapping(b)); });
    case Reduce::minimum:
      return each(to, of, n, [](T a, T b) { return a < b || a != a ? a : b; });
    case Reduce::maximum:
      return each(to, of, n, [](T a, T b) { return a > b || a != a ? a : b; });
    case Reduce::replace:
      return convert(into, from);
  }
}

void combine_alike(NumberSpan into, NumberSpan from, Reduce how) {
  switch (into.type) {
    case DType::fp32:
      return combine_as<float>(into, from, how);
    case DType::fp64:
      return combine_as<double>(into, from, how);
    case DType::int64:
      return combine_as<std::int64_t>(into, from, how);
    case DType::int32:
      return combine_as<std::int32_t>(into, from, how);
    case DType::uint8:
      return combine_as<std::uint8_t>(into, from, how);
    case DType::fp16:
    case DType::bf16:
      break;  // through fp32
  }
}

/// Converts a block at a time to `middle`, and back.
void combine_by_way_of(DType middle, NumberSpan into, NumberSpan from, Reduce how) {
  double to[block], of[block];  // large enough for a block of any type
  for (std::size_t i = 0; i < into.count; i += block) {
    const std::size_t end = std::min(i + block, into.count);
    const NumberSpan whole_to(to, end - i, middle), whole_of(of, end - i, middle), part = into.slice(i, end);
    convert(whole_to, part);
    convert(whole_of, from.slice(i, end));
    combine_alike(whole_to, whole_of, how);
    convert(part, whole_to);
  }
}

template <class T>
void divide_as(NumberSpan values, std::int64_t divisor) {
  for (T& x : values.as<T>()) x = static_cast<T>(static_cast<std::int64_t>(x) / divisor);
}

template <class T>
void finish_mean_as(NumberSpan values, T divisor) {
  constexpr T infinity = std::numeric_limits<T>::infinity(), largest = std::numeric_limits<T>::max();
  for (T& x : values.as<T>()) {
    const T limit = std::abs(x) <= largest ? largest : infinity;
    x = std::clamp(x / divisor, -limit, limit);
  }
}

}  // namespace

const char* name(Reduce how) {
  switch (how) {
    case Reduce::add:
      return "add";
    case Reduce::multiply:
      return "multiply";
    case Reduce::minimum:
      return "minimum";
    case Reduce::maximum:
      return "maximum";
    case Reduce::replace:
      return "replace";
  }
  return "?";
}

void combine(NumberSpan into, NumberSpan from, Reduce how) {
  require(into.count == from.count, name(how), " of ", from.count, " elements to ", into.count);
  if (!into.data || !from.data || into.count == 0) return;
  const bool is_wide = into.type == DType::fp32 || into.type == DType::fp64;
  if (how == Reduce::replace) {
    convert(into, from);
  } else if (how == Reduce::add && is_wide) {
    add(into, from);
  } else if (into.type == from.type && (is_wide || !is_float(into.type))) {
    combine_alike(into, from, how);
  } else {
    require(is_float(into.type) && is_float(from.type), name(how), " of ", name(from.type), " to ", name(into.type));
    combine_by_way_of(into.type == DType::fp64 ? DType::fp64 : DType::fp32, into, from, how);
  }
}

void divide(NumberSpan values, std::int64_t divisor) {
  if (!values.data || divisor == 1) return;
  switch (values.type) {
    case DType::fp32:
    case DType::fp64:
    case DType::fp16:
    case DType::bf16:
      return scale(values, 1.0 / static_cast<double>(divisor));
    case DType::int64:
      return divide_as<std::int64_t>(values, divisor);
    case DType::int32:
      return divide_as<std::int32_t>(values, divisor);
    case DType::uint8:
      return divide_as<std::uint8_t>(values, divisor);
  }
}

void finish_mean(NumberSpan values, double divisor) {
  if (!values.data) return;
  if (values.type == DType::fp32) return finish_mean_as<float>(values, static_cast<float>(divisor));
  if (values.type == DType::fp64) return finish_mean_as<double>(values, divisor);
  require(is_float(values.type), "a mean of ", name(values.type), " on the way");
  float middle[block];
  for (std::size_t i = 0; i < values.count; i += block) {
    const NumberSpan part = values.slice(i, std::min(i + block, values.count)), wide(middle, part.count, DType::fp32);
    convert(wide, part);
    finish_mean_as<float>(wide, static_cast<float>(divisor));
    convert(part, wide);
  }
}

}  // namespace ripieno::numeric
