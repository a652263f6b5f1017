#include "ripieno/c10d/host_tensor.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <numeric>

namespace ripieno::c10d {
namespace {

/// Whether the memory holds the elements in the order of the indices, and as they are.
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

}  // namespace

std::optional<DType> number_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DType::fp32;
    case at::kDouble:
      return DType::fp64;
    case at::kHalf:
      return DType::fp16;
    case at::kBFloat16:
      return DType::bf16;
    case at::kLong:
      return DType::int64;
    case at::kInt:
      return DType::int32;
    case at::kByte:
      return DType::uint8;
    default:
      return std::nullopt;
  }
}

void assign(const at::Tensor& into, const at::Tensor& from) {
  std::optional<c10::InferenceMode> inference;
  if (into.is_inference()) inference.emplace(true);
  const at::NoGradGuard no_grad;
  // Detached, a sparse tensor would not change.
  (into.layout() == at::kStrided ? into.detach() : into).copy_(from);
}

HostTensor::HostTensor(at::Tensor tensor) : tensor_(std::move(tensor)) {
  if (tensor_.layout() != at::kStrided)
    fail(ErrorKind::usage, "a tensor of layout ", text(tensor_.layout()), " cannot be exchanged here: make it dense");
  const at::NoGradGuard no_grad;
  host_ = is_plain(tensor_) ? tensor_ : tensor_.detach().resolve_conj().resolve_neg().cpu().contiguous();
}

NumberSpan HostTensor::numbers() const {
  const std::optional<DType> type = number_type(host_.scalar_type());
  return type ? NumberSpan(host_.data_ptr(), static_cast<std::size_t>(host_.numel()), *type)
              : NumberSpan(host_.data_ptr(), host_.nbytes(), DType::uint8);
}

void HostTensor::give_back() const {
  if (!host_.is_same(tensor_)) assign(tensor_, host_);
}

Parts::Parts(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    tensors_.emplace_back(tensor);
    bytes_.push_back(tensors_.back().bytes());
  }
  if (!tensors_.empty()) of_ = tensors_.front().host().scalar_type();
}

Parts Parts::equal(const at::Tensor& tensor, int count) {
  if (tensor.numel() % count != 0) {
    fail(ErrorKind::usage, "a tensor of ", tensor.numel(), " elements does not divide into ", count,
         " equal parts, one for each rank");
  }
  Parts parts;
  parts.tensors_.emplace_back(tensor);
  parts.of_ = tensor.scalar_type();
  const Bytes all = parts.tensors_.back().bytes();
  const std::size_t size = all.size() / static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) parts.bytes_.push_back(all.subspan(i * size, size));
  return parts;
}

Parts Parts::along_rows(const at::Tensor& tensor, const std::vector<std::int64_t>& rows, int count) {
  if (rows.empty()) {
    if (tensor.dim() == 0 || tensor.size(0) % count != 0) {
      fail(ErrorKind::usage, "Tensor's dim 0 does not divide equally across group size: its sizes are ",
           text(tensor.sizes()), ", the group has ", count, " ranks");
    }
    return equal(tensor, count);
  }
  const std::int64_t sum = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  if (rows.size() != static_cast<std::size_t>(count) || tensor.dim() == 0 || sum != tensor.size(0)) {
    fail(ErrorKind::usage, "Split sizes doesn't match total dim 0 size, or their number not the group's: ", rows.size(),
         " sizes of ", sum, " rows together, for a tensor of sizes ", text(tensor.sizes()), " and ", count, " ranks");
  }
  Parts parts;
  parts.tensors_.emplace_back(tensor);
  parts.of_ = tensor.scalar_type();
  const Bytes all = parts.tensors_.back().bytes();
  const std::size_t row = sum == 0 ? 0 : all.size() / static_cast<std::size_t>(sum);
  std::size_t begin = 0;
  for (const std::int64_t one : rows) {
    parts.bytes_.push_back(all.subspan(begin, static_cast<std::size_t>(one) * row));
    begin += static_cast<std::size_t>(one) * row;
  }
  return parts;
}

void Parts::give_back() const {
  for (const HostTensor& tensor : tensors_) tensor.give_back();
}

}  // namespace ripieno::c10d
