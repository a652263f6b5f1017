// Coded averages: a block codec along any route. The route's schedule runs over blocks of numbers instead of numbers,
// so that every range is whole blocks and can be encoded by itself.
//
// 1. numbers <- weight * numbers
// 2. For k = 0, 1, ..: a partial sum (Reduce::add) is encoded, sent, decoded and added.
// 3. Who holds a sum that is final (Reduce::replace) encodes it once and takes over what it decodes to; everybody
//    forwards these bytes as they came: all ranks decode the same bytes, and so end with the same bits.
//
// Error feedback: each encoding of 2 and 3 adds what this rank's last encoding of the same elements lost, and keeps
// what it loses (codec/error_feedback.h). A rank encodes each element at most once in an average, either as its own
// partial sum or as the owner of the final one, so one residual of the slot's size is one per hop. Summed over ranks
// and rounds nothing is lost: outputs + residuals = true averages.
//
// Bytes: the route's closed form for as many elements as there are blocks, each of Codec::bytes(block) bytes (less for
// a last block that is shorter); rounds: the route's. Numbers that are not finite reach all ranks as such, and leave
// their residuals alone. A group of one encodes and sends nothing.
#pragma once

#include "ripieno/collective/averager.h"

namespace ripieno::collective {

/// The codec is a block codec, and the route adds on the way (check.h).
std::unique_ptr<Averager> make_coded(const AveragerOptions& options, std::vector<Slot> slots, DType type);

}  // namespace ripieno::collective
