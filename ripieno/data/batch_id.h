// Identifies one of a worker's batches.
#pragma once

#include <cstdint>

namespace ripieno::data {

/// Steps are counted within the epoch.
struct BatchId {
  std::uint32_t epoch = 0, step = 0;
};

}  // namespace ripieno::data
