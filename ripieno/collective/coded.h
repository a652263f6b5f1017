// Coded averages: a block codec along any route. The route's schedule runs over blocks of numbers instead of numbers,
// so that every range consists of whole blocks and can be encoded by itself.
//
// 1. numbers <- weight * numbers
// 2. For k = 0, 1, ..: encode a partial sum (Reduce::add), send it, decode it and add it.
// 3. The rank that holds a final sum (Reduce::replace) encodes it once and replaces it by what it decodes to; all
//    others forward these bytes unchanged. So all ranks decode the same bytes and end with the same bits.
//
// Error feedback: each encoding in 2 and 3 adds what this rank's previous encoding of the same elements lost, and keeps
// what it loses itself (codec/error_feedback.h). A rank encodes each element at most once in an average, as its own
// partial sum or as the owner of the final one, so one residual of the slot's size serves every hop. Summed over ranks
// and rounds nothing is lost: outputs + residuals = true averages.
//
// Bytes: the route's closed form with blocks as elements, each of Codec::bytes(block) bytes (fewer for a shorter last
// block); rounds: the route's. Numbers that are not finite reach all ranks as such, and do not change their residuals.
// A group of one encodes and sends nothing.
#pragma once

#include "ripieno/collective/averager.h"

namespace ripieno::collective {

/// Requires a block codec and a route that adds on the way (check.h).
std::unique_ptr<Averager> make_coded(const AveragerOptions& options, std::vector<Slot> slots, DType type);

}  // namespace ripieno::collective
