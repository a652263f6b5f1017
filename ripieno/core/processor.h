// Instruction sets of this machine's processor.
#pragma once

#include <cstdint>
#include <optional>

namespace ripieno {

enum class Instructions : std::uint8_t { avx512_bf16, avx512_fp16, amx_bf16 };

/// Whether the processor has them; nullopt if unknown, e.g. on a processor other than x86.
std::optional<bool> processor_has(Instructions which);

}  // namespace ripieno
