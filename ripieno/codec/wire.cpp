#include "ripieno/codec/wire.h"

#include <array>
#include <string>

namespace ripieno {
namespace {

constexpr std::array formats{
    WireFormat{"auto", [](DType native) { return native; }},
    WireFormat{"fp32", [](DType) { return DType::fp32; }},
    WireFormat{"fp16", [](DType) { return DType::fp16; }},
    WireFormat{"bf16", [](DType) { return DType::bf16; }},
};

}  // namespace

std::span<const WireFormat> wire_formats() { return formats; }

const WireFormat& find_wire_format(std::string_view name) {
  std::string known;
  for (const WireFormat& format : formats) {
    if (format.name == name) return format;
    known += (known.empty() ? "" : ", ") + std::string(format.name);
  }
  fail(ErrorKind::usage, "there is no wire format \"", name, "\"; the formats are ", known);
}

}  // namespace ripieno
