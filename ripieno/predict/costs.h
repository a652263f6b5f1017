// What the CPU does besides passes, measured here by the real clock: coding what is exchanged, and optimisers' steps.
#pragma once

#include "ripieno/collective/averager.h"
#include "ripieno/optim/optimiser.h"
#include "ripieno/strategy/learner.h"

namespace ripieno::predict {

/// Seconds that a rank spends for each number of an average, on encoding, decoding and adding, per
/// CodecOptions::number_s: of two ranks around a ring, with the whole of the layout's buckets, or with a part where
/// they are many millions of numbers.
double coding_cost(const codec::CodecOptions& codec, const strategy::Layout& layout);

/// Of a step on the whole model: `parameters` numbers.
Duration optimiser_cost(const optim::OptimiserOptions& optimiser, std::size_t parameters, DType type);

}  // namespace ripieno::predict
