#include "ripieno/core/processor.h"

namespace ripieno {

std::optional<bool> processor_has(Instructions which) {
#if defined(__x86_64__) && !defined(__clang__)  // clang 16 does not know all of these names
  __builtin_cpu_init();
  switch (which) {
    case Instructions::avx512_bf16:
      return __builtin_cpu_supports("avx512bf16") != 0;
    case Instructions::avx512_fp16:
      return __builtin_cpu_supports("avx512fp16") != 0;
    case Instructions::amx_bf16:
      return __builtin_cpu_supports("amx-bf16") != 0;
  }
#endif
  return std::nullopt;
}

}  // namespace ripieno
