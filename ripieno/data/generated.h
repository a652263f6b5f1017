// A data set without files: sample i is drawn when it is read, from (seed, split, i) alone. So it is the same for every
// worker, in any order of reading and for any number of samples.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "ripieno/core/random.h"
#include "ripieno/data/dataset.h"

namespace ripieno::data {

/// Draws one image into planes of bytes and returns its label. Uses integers only, so that every machine and compiler
/// draws the same.
using Draw = int (*)(Random& random, std::span<std::uint8_t> pixels);

struct GeneratedSet {
  ImageShape shape;
  int classes;
  std::uint32_t train, test;  ///< samples, unless the options ask for another number
  Draw draw;
};

std::unique_ptr<Dataset> open_generated(const GeneratedSet& set, Split split, const DataOptions& options);

}  // namespace ripieno::data
