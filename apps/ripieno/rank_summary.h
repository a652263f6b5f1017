// What a rank has to say of its run when it ends: its summary.
#pragma once

#include "apps/ripieno/settings.h"
#include "ripieno/observe/recorder.h"
#include "ripieno/report/summary.h"
#include "ripieno/strategy/strategy.h"

namespace ripieno {

class TorchLearner;

/// `weights`: the consensus; `total_seconds`: of the rank's whole part, start and end included.
Summary summarise(const Settings& settings, const Plan& plan, int rank, const TorchLearner& learner,
                  const Recorder& recorder, const Ledger& ledger, NumberSpan weights, double total_seconds);

}  // namespace ripieno
