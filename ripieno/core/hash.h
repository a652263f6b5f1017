// Digests, to tell whether two ranks hold the same: no protection against who means harm.
#pragma once

#include <cstdint>
#include <string_view>

namespace ripieno {

/// Of these bytes: XXH3, 64 bits. The same on every machine.
std::uint64_t hash(std::string_view bytes);

}  // namespace ripieno
