// How a ReduceOp of c10d combines the ranks' tensors.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string_view>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "ripieno/collective/schedule.h"

namespace ripieno::c10d {

struct Combining {
  /// How the collectives combine numbers as they arrive; nullopt: combine() does it, once all are there.
  std::optional<collective::Reduction> on_the_way = collective::Reduction::sum;
  double factor = 1;                          ///< each rank's numbers are multiplied by it first
  double divisor = 1;                         ///< the sum is divided by it in the end
  std::string_view label = "all_reduce sum";  ///< of an all-reduce's messages: ranks that differ are told
};

/// "sum", "avg", ...
const char* name_of(const ::c10d::ReduceOp& op);

/// Error(usage): the operation does not exist for the type.
void check_reduction(const char* operation, const ::c10d::ReduceOp& op, at::ScalarType type);

/// A mean, of so many ranks, first multiplies by a power of two, so that sums of any numbers fit.
Combining combining_of(const ::c10d::ReduceOp& op, at::ScalarType type, int size);

/// Combines all ranks' tensors, in rank order, with LibTorch. Integers: sums and products wrap around, means are exact
/// and rounded towards zero. Errors: LibTorch's, where an operation does not exist for the type.
at::Tensor combine(const std::vector<at::Tensor>& all, const ::c10d::ReduceOp& op);

}  // namespace ripieno::c10d
