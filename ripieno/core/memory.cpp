#include "ripieno/core/memory.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace ripieno {

std::shared_ptr<std::byte> own_memory(std::size_t bytes) {
  constexpr std::align_val_t line{64};
  auto* data = static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), line));
  std::memset(data, 0, bytes);
  return {data, [line](std::byte* owned) { ::operator delete(owned, line); }};
}

}  // namespace ripieno
