// Parts of a buffer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ripieno {

/// Elements [begin, end) of a buffer.
struct Range {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// The `i`-th of `parts` nearly equal parts of `elements`: no part differs from another by more than one element.
inline Range chunk(std::size_t elements, int parts, int i) {
  const auto cut = [&](int at) {
    if (elements <= UINT32_MAX) return elements * static_cast<unsigned>(at) / static_cast<unsigned>(parts);  // faster
    return static_cast<std::size_t>(static_cast<unsigned __int128>(elements) * static_cast<unsigned>(at) /
                                    static_cast<unsigned>(parts));
  };
  return {cut(i), cut(i + 1)};
}

}  // namespace ripieno
