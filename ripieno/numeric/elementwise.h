// Element-wise work on float spans, vectorised for the processor found at run time (Highway). Rounding to a narrower
// type is to nearest, ties to even (fp64 goes to fp16 and bf16 by way of fp32, so that a number next to a tie may go to
// the other side); NaN stays NaN; numbers beyond fp16's range become infinity. Spans without data are skipped.
#pragma once

#include "ripieno/core/hash.h"
#include "ripieno/core/span.h"

namespace ripieno::numeric {

/// into[i] += from[i]; `from` may be of another type and is converted on the way. Into fp32 from fp64, the sum is
/// rounded once.
void add(NumberSpan into, NumberSpan from);

/// a[i] = b[i] = a[i] + b[i]; both fp32, or both fp64. One pass over memory, so that cache lines of b that another core
/// holds move only once each way.
void add_to_both(NumberSpan a, NumberSpan b);

/// into[i] = a[i] - b[i]; all fp32, or all fp64.
void subtract(NumberSpan into, NumberSpan a, NumberSpan b);

/// into[i] = (into[i] - from[i]) + to[i]; all fp32, or all fp64: carries the difference of `into` from `from` over to
/// `to`.
void carry_over(NumberSpan into, NumberSpan from, NumberSpan to);

/// into[i] = from[i], converted to into's type.
void convert(NumberSpan into, NumberSpan from);

/// values[i] *= factor.
void scale(NumberSpan values, double factor);

/// Rounds each value to one that `type` can hold.
void round_through(NumberSpan values, DType type);

bool all_finite(NumberSpan values);  ///< no infinity and no NaN; fp32 and fp64

/// A 64-bit digest of the bits. Equal bits have equal digests.
std::uint64_t hash(NumberSpan values);

}  // namespace ripieno::numeric
