// What an averager keeps, as tensors and numbers by name: for the checkpoints of hooks.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>

#include "ripieno/collective/averager.h"

namespace ripieno::c10d {

struct KeptState {
  std::map<std::string, at::Tensor> tensors;    ///< residual; powersgd: q, the right factors. Of one dimension
  std::map<std::string, std::int64_t> numbers;  ///< calls, by which random rounding differs
};

/// A copy of what an averager of one slot keeps.
KeptState kept_by(collective::Averager& averager);

/// Makes it keep that instead. Error(usage): a part is missing or of another size or type.
void restore(collective::Averager& averager, const KeptState& state);

/// A code of what must be the same on all ranks.
std::uint64_t shared_code(collective::Averager& averager);

}  // namespace ripieno::c10d
