#include "ripieno/transport/checksum.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace ripieno::transport {
namespace {

constexpr std::size_t most_at_once = 1 << 30;  // its lengths are ints

}  // namespace

void Checksum::add(ConstBytes bytes) {
  while (!bytes.empty()) {
    const ConstBytes some = bytes.first(std::min(bytes.size(), most_at_once));
    auto* const data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(some.data()));  // which it only reads
    state_ = ::crc32_iscsi(data, static_cast<int>(some.size()), state_);
    bytes = bytes.subspan(some.size());
  }
}

}  // namespace ripieno::transport
