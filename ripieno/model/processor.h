// What the processor that this runs on can do.
#pragma once

#include <optional>

namespace ripieno {

/// Whether it has these instructions, by LibTorch's names for them: "avx512_bf16", "amx_bf16", ... None where LibTorch does not know, as of
/// what is no x86.
std::optional<bool> processor_has(const char* instructions);

}  // namespace ripieno
