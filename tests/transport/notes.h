// Messages for tests of the simulated network, and a network for them.
#pragma once

#include "ripieno/transport/simulated/network.h"

namespace ripieno::testing {

constexpr transport::Message note(std::uint64_t count, std::uint32_t channel = 0) {
  return {{observe::Purpose::exchange, channel}, "note", DType::fp32, count};
}

inline const transport::SimulatedOptions gigabit{.link = {Duration(50'000'000), Duration(8'000)}, .window_bytes = 4096};

}  // namespace ripieno::testing
