// Wire formats: fixed-size encodings of floating-point numbers, converted at every hop of a schedule. The owner of
// final values rounds its own copy too, so that all ranks hold the same bits (collective/numbers_payload.h).
#pragma once

#include <span>
#include <string_view>

#include "ripieno/core/span.h"

namespace ripieno::codec {

struct WireFormat {
  std::string_view name;
  /// The type on the wire for numbers that are `native` in memory.
  DType (*type)(DType native);
};

/// Every wire format, in one table: auto, fp32, fp16, bf16.
std::span<const WireFormat> wire_formats();

/// Throws Error(usage), which lists the known formats, for an unknown name.
const WireFormat& find_wire_format(std::string_view name);

}  // namespace ripieno::codec
