// The destination of an arriving payload: raw bytes, or numbers that are combined or converted on arrival.
#pragma once

#include <optional>

#include "ripieno/numeric/combine.h"

namespace ripieno::transport {

/// With null data the payload is counted but not moved.
class Sink {
 public:
  Sink(Bytes into) : straight_(into) {}  // NOLINT: implicit from bytes
  Sink(NumberSpan into, DType wire, numeric::Reduce how);

  /// Bytes on the wire.
  std::uint64_t payload() const { return convert_ ? into_.count * size_of(wire_) : straight_.size(); }
  /// Whether data is moved.
  bool has_data() const { return convert_ ? into_.data != nullptr : straight_.data() != nullptr; }
  /// The memory that the payload can be read into directly; nullopt if each part has to go through take().
  std::optional<Bytes> straight() const;
  /// Takes the payload's bytes from `offset` on; a whole number of elements.
  void take(std::uint64_t offset, ConstBytes part) const;

 private:
  Bytes straight_;
  NumberSpan into_;
  DType wire_ = DType::fp32;
  numeric::Reduce how_ = numeric::Reduce::replace;
  bool convert_ = false;  ///< use into_, not straight_
};

}  // namespace ripieno::transport
