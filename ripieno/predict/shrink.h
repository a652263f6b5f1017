// A model with fewer numbers, in whose exchange the same messages go between the same ranks, each smaller by about one
// factor: on links that are slower by that factor it takes as long as the whole model's, and simulating it costs a
// fraction.
#pragma once

#include "ripieno/codec/codec.h"
#include "ripieno/strategy/learner.h"

namespace ripieno::predict {

/// Every tensor and bucket with a `factor`-th of its numbers, one at least; `factor` >= 1. For PowerSGD, which sends
/// factors, matrices that it factors have a factor-th of their rows and of their columns instead.
strategy::Layout shrunk(const strategy::Layout& layout, double factor, const codec::CodecOptions& codec);

/// The same codec for such a model: blocks of fewer numbers, so that there are still many.
codec::CodecOptions shrunk(codec::CodecOptions codec, double factor);

/// When a bucket's gradient was ready, for buckets that are cut otherwise: when all of the `measured` ones that lie in
/// it were.
std::vector<Duration> ready_in(const std::vector<Range>& buckets, const std::vector<Range>& measured,
                               const std::vector<Duration>& ready);

}  // namespace ripieno::predict
