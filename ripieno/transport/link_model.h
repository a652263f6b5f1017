// The alpha-beta model of a link: a message of b bytes takes alpha + b beta.
#pragma once

#include "ripieno/core/runtime.h"

namespace ripieno::transport {

struct LinkModel {
  Duration latency{50'000'000};  ///< alpha: from sending the first byte to its arrival
  Duration per_byte{8'000};      ///< beta: 8,000 ps a byte is 1 Gb/s
};

}  // namespace ripieno::transport
