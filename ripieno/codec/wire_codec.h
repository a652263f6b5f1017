// The wire formats (codec/wire.h) as codecs: every number is converted to the narrower type, to nearest, ties to even.
// Numbers beyond fp16's range become infinity.
//
// Bytes: n size_of(type).
#pragma once

#include "ripieno/codec/codec.h"

namespace ripieno::codec {

/// Numbers are `type` on the wire. Decoding needs bytes aligned for that type.
std::unique_ptr<Codec> make_wire(DType type);

}  // namespace ripieno::codec
