// Where an arriving payload goes: bytes as they are, or numbers that are combined or converted on the way.
#pragma once

#include <optional>

#include "ripieno/numeric/combine.h"

namespace ripieno::transport {

/// Null data is counted, not moved.
class Sink {
 public:
  Sink(Bytes into) : straight_(into) {}  // NOLINT: implicit from bytes
  Sink(NumberSpan into, DType wire, numeric::Reduce how);

  /// Bytes on the wire.
  std::uint64_t payload() const { return convert_ ? into_.count * size_of(wire_) : straight_.size(); }
  /// Whether anything is moved.
  bool has_data() const { return convert_ ? into_.data != nullptr : straight_.data() != nullptr; }
  /// The bytes that the payload may be read to as it is; nothing where each part has to go through take().
  std::optional<Bytes> straight() const;
  /// Takes the payload's bytes from `offset` on; a whole number of elements.
  void take(std::uint64_t offset, ConstBytes part) const;

 private:
  Bytes straight_;
  NumberSpan into_;
  DType wire_ = DType::fp32;
  numeric::Reduce how_ = numeric::Reduce::replace;
  bool convert_ = false;  ///< into_, not straight_
};

}  // namespace ripieno::transport
