#include "ripieno/model/processor.h"

#include <ATen/cpu/Utils.h>

namespace ripieno {

std::optional<bool> processor_has(const char* instructions) {
  static const auto found = at::cpu::get_cpu_capabilities();
  if (!found.contains(instructions) || !found.at(instructions).isBool()) return std::nullopt;
  return found.at(instructions).toBool();
}

}  // namespace ripieno
