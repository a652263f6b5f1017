// The wire formats (codec/wire.h) as codecs: every number converted to the narrower type, to nearest, ties to even.
// What exceeds fp16's range becomes infinity.
//
// Bytes: n size_of(type).
#pragma once

#include "ripieno/codec/codec.h"

namespace ripieno::codec {

/// Numbers as `type` on the wire. Decoding takes bytes that are aligned for it.
std::unique_ptr<Codec> make_wire(DType type);

}  // namespace ripieno::codec
