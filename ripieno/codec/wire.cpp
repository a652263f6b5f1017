#include "ripieno/codec/wire.h"

#include <array>
#include <string>

#include "ripieno/core/edit_distance.h"

namespace ripieno::codec {
namespace {

constexpr std::array formats{
    WireFormat{"auto", [](DType native) { return native; }},
    WireFormat{"fp32", [](DType) { return DType::fp32; }},
    WireFormat{"fp16", [](DType) { return DType::fp16; }},
    WireFormat{"bf16", [](DType) { return DType::bf16; }},
};

}  // namespace

std::span<const WireFormat> wire_formats() { return formats; }

const WireFormat& find_wire_format(std::string_view name) { return find_named(formats, name, "wire format"); }

}  // namespace ripieno::codec
