#include "ripieno/core/span.h"

namespace ripieno {

const char* name(DType type) {
  switch (type) {
    case DType::fp32:
      return "fp32";
    case DType::fp64:
      return "fp64";
    case DType::fp16:
      return "fp16";
    case DType::bf16:
      return "bf16";
    case DType::int64:
      return "int64";
    case DType::int32:
      return "int32";
    case DType::uint8:
      return "uint8";
  }
  return "unknown";
}

}  // namespace ripieno
