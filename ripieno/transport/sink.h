// Where an arriving payload goes: bytes as they are, or numbers that are added or converted on the way.
#pragma once

#include <optional>

#include "ripieno/transport/endpoint.h"

namespace ripieno {

/// Null data is counted, not moved.
class Sink {
 public:
  explicit Sink(Bytes into) : straight_(into) {}
  Sink(FloatSpan into, DType wire, Reduce how);

  /// Bytes on the wire.
  std::uint64_t payload() const;
  /// The bytes that the payload may be read to as it is; nothing where each part has to go through take().
  std::optional<Bytes> straight() const;
  /// Takes the payload's bytes from `offset` on; a whole number of elements.
  void take(std::uint64_t offset, ConstBytes part) const;

 private:
  Bytes straight_;
  FloatSpan into_;
  DType wire_ = DType::fp32;
  Reduce how_ = Reduce::replace;
  bool convert_ = false;  ///< into_, not straight_
};

}  // namespace ripieno
