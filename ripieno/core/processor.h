// What the processor that this runs on can do.
#pragma once

#include <cstdint>
#include <optional>

namespace ripieno {

enum class Instructions : std::uint8_t { avx512_bf16, avx512_fp16, amx_bf16 };

/// Whether it has them. None where this is not known, as of what is no x86.
std::optional<bool> processor_has(Instructions which);

}  // namespace ripieno
