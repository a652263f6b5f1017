// A rank's metrics as a TensorBoard event file, for who looks at runs there.
#pragma once

#include <string>

#include "ripieno/report/run.h"

namespace ripieno {

/// The bytes of an events.out.tfevents file of one rank: loss, samples, stages and bytes of every step, accuracy of every epoch, CPU, memory and
/// network of every sample. Steps count from 0; a sample and an epoch stand at the step before them.
/// The format: records (length, masked CRC-32C of it, data, masked CRC-32C of that; tensorflow/core/lib/io/record_writer.cc) of
/// Event messages in protocol buffers (tensorboard/compat/proto/event.proto, summary.proto).
std::string tensorboard_events(const Metrics& metrics);

}  // namespace ripieno
