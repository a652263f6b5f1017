// Element-wise work on float spans, vectorised for the processor that is found at run time (Highway). Rounding to a
// narrower type is to nearest, ties to even; NaN stays NaN; what exceeds fp16's range becomes infinity.
// Spans without data are skipped.
#pragma once

#include "ripieno/core/span.h"

namespace ripieno {

/// into[i] += from[i]; `from` may be of a narrower type and is converted on the way.
void add(FloatSpan into, FloatSpan from);

/// into[i] = from[i], converted to into's type.
void convert(FloatSpan into, FloatSpan from);

/// values[i] *= factor.
void scale(FloatSpan values, double factor);

/// values[i] = values[i] rounded to what `type` can hold.
void round_through(FloatSpan values, DType type);

/// A 64-bit digest of the bits (FNV-1a over 64-bit words). Equal on all ranks exactly where the bits are.
std::uint64_t hash(FloatSpan values);

}  // namespace ripieno
