// Gathered averages: every rank gets every rank's encoding and adds them up itself. For codecs whose sums do not fit
// into the same bytes (top-k), and for block codecs on a route of one round.
//
// 1. numbers <- weight * numbers
// 2. Encode them, with error feedback (codec/error_feedback.h).
// 3. All-gather the encodings: `ring` in P-1 steps, each forwarding what the step before received; `direct` with all
//    sends in flight at once.
// 4. numbers <- the sum of the decoded encodings, in member order: the same bits everywhere.
//
// Bytes: (P-1) Codec::bytes(n); if that depends on the numbers, a message of 8 bytes with the size precedes each
// encoding (encoded.h). Rounds: P-1 (ring), 1 (direct). Memory: P encodings. Numbers that are not finite reach all
// ranks as such, and do not change their residuals. A group of one encodes and sends nothing.
#pragma once

#include "ripieno/collective/averager.h"

namespace ripieno::collective {

/// Requires a route for which gathers() is true.
std::unique_ptr<Averager> make_gathered(const AveragerOptions& options, std::vector<Slot> slots, DType type);

/// Whether the all-reduce's route has an all-gather of the same name.
bool gathers(const Route& route);

}  // namespace ripieno::collective
