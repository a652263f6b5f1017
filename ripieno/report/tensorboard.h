// Runs as TensorBoard's event files.
#pragma once

#include <string>
#include <vector>

#include "ripieno/report/run.h"

namespace ripieno::report {

/// The bytes of an events.out.tfevents file of one rank: loss, samples, stages and bytes of every step, accuracy of
/// every epoch, CPU, memory and network of every sample. Steps count from 0; samples and epochs have the number of the
/// step before them.
std::string tensorboard_events(const Metrics& metrics);

/// For the hparams tab (tensorboard/plugins/hparams/plugin_data.proto, api.proto). The experiment goes into the folder
/// above the runs' folders: the settings and properties in which runs differ, and the measures of their sessions.
std::string tensorboard_experiment(const std::vector<Run>& runs);
/// A run's session goes into its folder: its values of the differing properties, its measures as scalars, and its end.
std::string tensorboard_session(const Run& run, const std::vector<Run>& runs);

}  // namespace ripieno::report
