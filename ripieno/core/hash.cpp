#include "ripieno/core/hash.h"

#define XXH_INLINE_ALL  // no library to link
#include <xxhash.h>

namespace ripieno {

std::uint64_t hash(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace ripieno
