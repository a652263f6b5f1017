// Tensors over flat memory: a block of numbers, views of parts of it, and the span that a tensor covers.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "ripieno/core/memory.h"
#include "ripieno/core/span.h"

namespace ripieno::train {

/// `elements` zeros of the type and device of `kind`. On the CPU they are in `memory`, elsewhere in LibTorch's own.
torch::Tensor flat_tensor(std::int64_t elements, const torch::TensorOptions& kind, const Memory& memory);

/// The part of `flat` that begins at element `offset`, with the shape of `like`; channels_last holds for 4-dimensional
/// shapes.
torch::Tensor view_of(const torch::Tensor& flat, std::int64_t offset, const torch::Tensor& like, bool channels_last);

/// The same memory as `view`, but not a view in autograd's sense: it may be written to even if the tensor is a leaf,
/// and detached in place.
torch::Tensor alias_of(const torch::Tensor& view);

/// The numbers of a contiguous tensor, in place; an empty span if the tensor is undefined or empty.
NumberSpan span_of(const torch::Tensor& tensor, DType type);

}  // namespace ripieno::train
