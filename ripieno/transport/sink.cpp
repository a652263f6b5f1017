#include "ripieno/transport/sink.h"

#include <cstring>

namespace ripieno::transport {

Sink::Sink(NumberSpan into, DType wire, numeric::Reduce how) : into_(into), wire_(wire), how_(how) {
  convert_ = how != numeric::Reduce::replace || wire != into.type;
  if (!convert_) straight_ = into.bytes();
}

std::optional<Bytes> Sink::straight() const {
  if (convert_ || !straight_.data()) return std::nullopt;
  return straight_;
}

void Sink::take(std::uint64_t offset, ConstBytes part) const {
  if (!convert_) {
    if (straight_.data() && !part.empty()) std::memcpy(straight_.data() + offset, part.data(), part.size());
    return;
  }
  const std::size_t first = offset / size_of(wire_), count = part.size() / size_of(wire_);
  const NumberSpan from(const_cast<std::byte*>(part.data()), count, wire_);  // read only
  const NumberSpan into = into_.slice(first, first + count);
  numeric::combine(into, from, how_);
}

}  // namespace ripieno::transport
