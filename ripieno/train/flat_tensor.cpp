#include "ripieno/train/flat_tensor.h"

#include <utility>

namespace ripieno::train {

torch::Tensor flat_tensor(std::int64_t elements, const torch::TensorOptions& kind, const Memory& memory) {
  if (!kind.device().is_cpu()) return torch::zeros({elements}, kind);
  auto block = memory(static_cast<std::size_t>(elements) * kind.dtype().itemsize());
  void* const data = block.get();
  return torch::from_blob(
      data, {elements}, [block = std::move(block)](void*) mutable { block.reset(); }, kind);
}

torch::Tensor view_of(const torch::Tensor& flat, std::int64_t offset, const torch::Tensor& like, bool channels_last) {
  const torch::Tensor part = flat.narrow(0, offset, like.numel());
  if (!channels_last || like.dim() != 4) return part.view(like.sizes());
  const auto s = like.sizes();
  return part.view({s[0], s[2], s[3], s[1]}).permute({0, 3, 1, 2});
}

torch::Tensor alias_of(const torch::Tensor& view) {
  torch::Tensor alias = torch::empty({0}, torch::TensorOptions(view.device()).dtype(view.scalar_type()));
  alias.set_(view.storage(), view.storage_offset(), view.sizes(), view.strides());
  return alias;
}

NumberSpan span_of(const torch::Tensor& tensor, DType type) {
  if (!tensor.defined() || tensor.numel() == 0) return NumberSpan(nullptr, 0, type);
  return NumberSpan(tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), type);
}

}  // namespace ripieno::train
