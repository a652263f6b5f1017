// Hashes, to tell whether two ranks hold the same; no protection against attackers.
#pragma once

#include <cstdint>
#include <string_view>

namespace ripieno {

/// XXH3 with 64 bits; the same on every machine.
std::uint64_t hash(std::string_view bytes);

}  // namespace ripieno
