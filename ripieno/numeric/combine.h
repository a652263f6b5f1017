// What a collective does with two numbers of one element: their sum, product, lesser or greater.
#pragma once

#include <string_view>

#include "ripieno/core/span.h"

namespace ripieno::numeric {

/// What a receiver does with the numbers that arrive.
enum class Reduce : std::uint8_t { add, multiply, minimum, maximum, replace };
/// "add", ...
const char* name(Reduce how);

/// into[i] = into[i] combined with from[i], converted to into's type; `from` may be narrower. Whole numbers wrap
/// around; of NaN and a number the lesser and the greater are NaN; sums and products of fp16 and bf16 are rounded once.
/// Spans without data are skipped.
void combine(NumberSpan into, NumberSpan from, Reduce how);

/// values[i] /= divisor; of whole numbers, towards zero.
void divide(NumberSpan values, std::int64_t divisor);

}  // namespace ripieno::numeric
