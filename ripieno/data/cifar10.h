// CIFAR-10's binary version (Krizhevsky, 2009): records of one label byte and three 32 x 32 planes, red, green, blue.
#pragma once

#include <memory>

#include "ripieno/data/dataset.h"

namespace ripieno::data {

inline constexpr ImageShape cifar10_shape = {3, 32, 32};

/// Looks in options.folder and its subfolder cifar-10-batches-bin for data_batch_1.bin to data_batch_5.bin, or
/// test_batch.bin; gzip files are unpacked to options.cache. Reads nothing else now, then 3073 bytes a sample. Throws
/// Error(data) for a file that is missing, empty or no whole number of records; Error(io) if a folder or file may not
/// be read.
std::unique_ptr<Dataset> open_cifar10(Split split, const DataOptions& options);

}  // namespace ripieno::data
