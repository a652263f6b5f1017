// Makes a rank's summary at the end of its run.
#pragma once

#include "apps/ripieno/settings.h"
#include "ripieno/observe/recorder.h"
#include "ripieno/report/summary.h"
#include "ripieno/strategy/strategy.h"

namespace ripieno::train {
class TorchLearner;
}

namespace ripieno::program {

/// `weights`: the consensus; `total_seconds`: the rank's whole time, including start and end.
report::Summary summarise(const Settings& settings, const strategy::Plan& plan, int rank,
                          const train::TorchLearner& learner, const observe::Recorder& recorder,
                          const observe::Ledger& ledger, NumberSpan weights, double total_seconds);

}  // namespace ripieno::program
