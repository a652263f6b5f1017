// The part of a rank's metrics that came before a checkpoint, for the run that goes on from it.
#pragma once

#include <filesystem>

#include "ripieno/observe/recorder.h"
#include "ripieno/strategy/strategy.h"

namespace ripieno::program {

/// Of a rank's metrics file: what belongs to the steps before `saved`, and the ends of epochs before it. Throws as
/// report::read_metrics().
observe::EarlierPart earlier_part(const std::filesystem::path& metrics, strategy::Point saved);

}  // namespace ripieno::program
