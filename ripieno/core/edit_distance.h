// How far two words are apart: for "did you mean ..?".
#pragma once

#include <cstddef>
#include <string_view>

namespace ripieno {

/// Letters to change, insert, drop, or swap with their neighbour (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace ripieno
