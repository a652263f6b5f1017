// MNIST's four IDX files (LeCun, Cortes and Burges, 1998), and any data set in the same format: a big-endian header,
// then 28 x 28 bytes per image or one byte per label.
#pragma once

#include <memory>

#include "ripieno/data/dataset.h"

namespace ripieno::data {

inline constexpr ImageShape mnist_shape = {1, 28, 28};

/// Looks in options.folder and its subfolders mnist and MNIST/raw for {train,t10k}-images-idx3-ubyte and
/// {train,t10k}-labels-idx1-ubyte, also written with .idx and with .gz; files with packed content are unpacked to
/// options.cache. Reads 24 bytes of headers now, then 785 bytes a sample. Throws Error(data) for a missing file, a
/// magic number, count or image size that is not MNIST's, a file size that contradicts its header, and different counts
/// of images and labels; Error(io) if a folder or file may not be read.
std::unique_ptr<Dataset> open_mnist(Split split, const DataOptions& options);

}  // namespace ripieno::data
