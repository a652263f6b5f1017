// Combines two numbers of one element in a collective: sum, product, minimum or maximum.
#pragma once

#include <string_view>

#include "ripieno/core/span.h"

namespace ripieno::numeric {

/// What a receiver does with arriving numbers.
enum class Reduce : std::uint8_t { add, multiply, minimum, maximum, replace };
/// "add", ...
const char* name(Reduce how);

/// into[i] = into[i] combined with from[i], converted to into's type; `from` may be narrower. Integers wrap around; the
/// minimum and maximum of NaN and a number are NaN; sums and products of fp16 and bf16 are rounded once. Spans without
/// data are skipped.
void combine(NumberSpan into, NumberSpan from, Reduce how);

/// values[i] /= divisor; integers are rounded towards zero.
void divide(NumberSpan values, std::int64_t divisor);

/// values[i] /= divisor, floating-point numbers: sums become means, of which those of finite numbers are finite, though
/// the sums were rounded up.
void finish_mean(NumberSpan values, double divisor);

}  // namespace ripieno::numeric
