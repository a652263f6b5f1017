// Runs as TensorBoard's event files, for who looks at them there.
#pragma once

#include <string>
#include <vector>

#include "ripieno/report/run.h"

namespace ripieno::report {

/// The bytes of an events.out.tfevents file of one rank: loss, samples, stages and bytes of every step, accuracy of
/// every epoch, CPU, memory and network of every sample. Steps count from 0; a sample and an epoch stand at the step
/// before them.
std::string tensorboard_events(const Metrics& metrics);

/// For the hparams tab (tensorboard/plugins/hparams/plugin_data.proto, api.proto). The experiment lies above the runs'
/// folders: what they differ in, of their settings and of what they are, and the measures that their sessions have.
std::string tensorboard_experiment(const std::vector<Run>& runs);
/// A run's session lies in its folder: what it was of all that they differ in, its measures as scalars, and that it
/// ended.
std::string tensorboard_session(const Run& run, const std::vector<Run>& runs);

}  // namespace ripieno::report
