// Shrinks a model so that its exchange has the same messages between the same ranks, each smaller by about the same
// factor. On links slower by that factor it takes as long as the whole model's, and simulating it costs a fraction.
#pragma once

#include "ripieno/codec/codec.h"
#include "ripieno/strategy/learner.h"

namespace ripieno::predict {

/// Every tensor and bucket with a 1 / `factor` part of its numbers, but at least one; `factor` >= 1. For PowerSGD,
/// matrices that it factors keep that part of their rows and of their columns instead.
strategy::Layout shrunk(const strategy::Layout& layout, double factor, const codec::CodecOptions& codec);

/// The same codec for such a model, with smaller blocks, so that there are still many.
codec::CodecOptions shrunk(codec::CodecOptions codec, double factor);

/// The times at which gradients of other buckets would be ready: each when all of the `measured` buckets in it were.
std::vector<Duration> ready_in(const std::vector<Range>& buckets, const std::vector<Range>& measured,
                               const std::vector<Duration>& ready);

}  // namespace ripieno::predict
