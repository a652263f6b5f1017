// Gathered averages: for encodings whose sums cannot be encoded in the same bytes (top-k), and for block codecs on a
// route of one round. Every rank gets every rank's encoding and adds them up itself.
//
// 1. numbers <- weight * numbers
// 2. Encode them, with error feedback (codec/error_feedback.h).
// 3. All-gather the encodings: `ring` in P-1 steps, each forwarding what came in the one before; `direct` with all
//    sends in flight at once.
// 4. numbers <- the sum of what the encodings decode to, in the order of the members: the same bits everywhere.
//
// Bytes: (P-1) Codec::bytes(n); where that depends on the numbers, each encoding follows a message of 8 bytes, its
// size (encoded.h). Rounds: P-1 (ring), 1 (direct). Memory: P encodings. Numbers that are not finite reach all ranks as
// such, and leave their residuals alone. A group of one encodes and sends nothing.
#pragma once

#include "ripieno/collective/averager.h"

namespace ripieno::collective {

/// The route gathers.
std::unique_ptr<Averager> make_gathered(const AveragerOptions& options, std::vector<Slot> slots, DType type);

/// Whether the all-reduce's route has an all-gather of the same name.
bool gathers(const Route& route);

}  // namespace ripieno::collective
