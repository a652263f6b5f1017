// CPU costs besides passes, measured here in real time: encoding and decoding for exchanges, and optimisers' steps.
#pragma once

#include "ripieno/collective/averager.h"
#include "ripieno/optim/optimiser.h"
#include "ripieno/strategy/learner.h"

namespace ripieno::predict {

/// Seconds that a rank spends on encoding, decoding and adding each number of an average, for CodecOptions::number_s.
/// Measured with two ranks on a ring over all of the layout's buckets, or over a part of many millions of numbers.
double coding_cost(const codec::CodecOptions& codec, const strategy::Layout& layout);

/// The time of an optimiser's step on the whole model of `parameters` numbers.
Duration optimiser_cost(const optim::OptimiserOptions& optimiser, std::size_t parameters, DType type);

}  // namespace ripieno::predict
