#include "ripieno/train/flat_model.h"

#include <algorithm>
#include <unordered_set>

#include "ripieno/train/flat_tensor.h"

namespace ripieno::train {
namespace {

DType dtype_of_tensor(const torch::Tensor& tensor, const std::string& name) {
  if (tensor.scalar_type() == torch::kFloat32) return DType::fp32;
  if (tensor.scalar_type() == torch::kFloat64) return DType::fp64;
  fail(ErrorKind::usage, "parameter ", name, " is of type ", tensor.scalar_type(), "; fp32 and fp64 can be trained");
}

torch::ScalarType type_of(const torch::TensorOptions& kind) { return c10::typeMetaToScalarType(kind.dtype()); }

void check_like(const torch::TensorOptions& kind, const char* what, const std::string& name,
                const torch::Tensor& tensor) {
  if (tensor.device() != kind.device()) {
    fail(ErrorKind::usage, what, " ", name, " is on ", tensor.device(), ", others are on ", kind.device());
  }
  if (tensor.dtype() != kind.dtype()) {
    fail(ErrorKind::usage, what, " ", name, " is of type ", tensor.scalar_type(), ", others are of ", type_of(kind));
  }
}

/// One flat block that the given tensors become views of.
torch::Tensor flatten(std::vector<torch::Tensor>& tensors, const torch::TensorOptions& kind, const Memory& memory,
                      bool channels_last) {
  std::int64_t elements = 0;
  for (const auto& tensor : tensors) elements += tensor.numel();
  torch::Tensor flat = flat_tensor(elements, kind, memory);
  std::int64_t offset = 0;
  for (auto& tensor : tensors) {
    const torch::Tensor view = view_of(flat, offset, tensor, channels_last);
    view.copy_(tensor.detach());
    tensor.set_data(view);
    offset += view.numel();
  }
  return flat;
}

/// How many of the first tensors belong to the same module as the first one.
std::size_t tensors_of_first_layer(const std::vector<strategy::Layout::Tensor>& tensors) {
  const auto layer_of = [&](std::size_t i) { return tensors[i].name.substr(0, tensors[i].name.rfind('.')); };
  std::size_t count = 0;
  while (count < tensors.size() && layer_of(count) == layer_of(0)) ++count;
  return count;
}

}  // namespace

FlatModel::FlatModel(std::shared_ptr<torch::nn::Module> module, const FlatOptions& options)
    : module_(std::move(module)) {
  if (!module_) fail(ErrorKind::usage, "there is no model: the pointer to it is null");
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> frozen, buffers;
  const torch::TensorOptions kind = take_tensors(frozen, buffers);
  blocks_.parameters = flatten(trained_, kind, options.memory, options.channels_last);
  blocks_.frozen = flatten(frozen, kind, options.memory, options.channels_last);
  blocks_.buffers = flatten(buffers, kind, options.memory, false);
  place_gradients(kind, options);

  layout_.buffers = static_cast<std::size_t>(blocks_.buffers.numel());
  first_layer_ = tensors_of_first_layer(layout_.tensors);
  buckets_ = make_buckets(layout_.tensors, size_of(layout_.type),
                          {.bucket_bytes = options.bucket_bytes, .divide = options.divide});
  layout_.buckets = buckets_.ranges;
  for (const Range& rows : buckets_.divided_rows) {
    divided_parts_.push_back(trained_[*buckets_.divided].detach().narrow(0, static_cast<std::int64_t>(rows.begin),
                                                                         static_cast<std::int64_t>(rows.size())));
  }
}

torch::TensorOptions FlatModel::take_tensors(std::vector<torch::Tensor>& frozen, std::vector<torch::Tensor>& buffers) {
  std::unordered_set<const void*> known;
  std::optional<torch::TensorOptions> kind;
  for (auto& item : module_->named_parameters()) {
    torch::Tensor& tensor = item.value();
    if (!known.insert(tensor.unsafeGetTensorImpl()).second) continue;  // tied
    layout_.type = dtype_of_tensor(tensor, item.key());
    if (!kind) kind = torch::TensorOptions(tensor.device()).dtype(tensor.scalar_type());
    check_like(*kind, "parameter", item.key(), tensor);
    if (!tensor.requires_grad()) {
      frozen.push_back(tensor);
      continue;
    }
    const auto count = static_cast<std::size_t>(tensor.numel());
    layout_.tensors.push_back({item.key(), tensor.sizes().vec(), {layout_.parameters, layout_.parameters + count}});
    layout_.parameters += count;
    trained_.push_back(tensor);
  }
  if (trained_.empty()) fail(ErrorKind::usage, "the model has no parameter that requires a gradient");
  for (auto& item : module_->named_buffers()) {
    const torch::Tensor& tensor = item.value();
    if (tensor.scalar_type() != type_of(*kind) || !known.insert(tensor.unsafeGetTensorImpl()).second) continue;
    check_like(*kind, "buffer", item.key(), tensor);
    buffers.push_back(tensor);
  }
  return *kind;
}

void FlatModel::place_gradients(const torch::TensorOptions& kind, const FlatOptions& options) {
  blocks_.gradients = flat_tensor(blocks_.parameters.numel(), kind, options.memory);
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    const auto offset = static_cast<std::int64_t>(layout_.tensors[i].range.begin);
    // An alias: an optimiser's zero_grad() may detach it in place.
    gradient_places_.push_back(alias_of(view_of(blocks_.gradients, offset, trained_[i], options.channels_last)));
    trained_[i].mutable_grad() = gradient_places_[i];
  }
}

NumberSpan FlatModel::parameters() const { return span_of(blocks_.parameters, layout_.type); }
NumberSpan FlatModel::gradients() const { return span_of(blocks_.gradients, layout_.type); }
NumberSpan FlatModel::buffers() const { return span_of(blocks_.buffers, layout_.type); }
NumberSpan FlatModel::frozen() const { return span_of(blocks_.frozen, layout_.type); }

void FlatModel::collect_gradient(std::size_t tensor) const {
  const torch::NoGradGuard no_grad;
  torch::Tensor place = gradient_places_[tensor], gradient = trained_[tensor].grad();
  const bool is_sparse =
      gradient.defined() && gradient.layout() != torch::kStrided;  // an embedding's with sparse(true)
  if (is_sparse) gradient = gradient.to_dense();
  if (gradient.defined() && gradient.data_ptr() == place.data_ptr()) return;
  if (gradient.defined()) {
    place.copy_(gradient);
  } else {
    place.zero_();
  }
  trained_[tensor].mutable_grad() = place;
}

void FlatModel::train_first_layer(bool on) {
  for (std::size_t i = 0; i < first_layer_; ++i) trained_[i].set_requires_grad(on);
}

std::optional<std::size_t> FlatModel::index_of(const torch::Tensor& parameter) const {
  const NumberSpan all = parameters();
  const auto* begin = static_cast<const std::byte*>(all.data);
  const auto* address = static_cast<const std::byte*>(parameter.const_data_ptr());
  if (address < begin || address >= begin + all.size_bytes()) return std::nullopt;
  const std::size_t element = static_cast<std::size_t>(address - begin) / size_of(all.type);
  const auto after =
      std::upper_bound(layout_.tensors.begin(), layout_.tensors.end(), element,
                       [](std::size_t at, const strategy::Layout::Tensor& tensor) { return at < tensor.range.begin; });
  const auto i = static_cast<std::size_t>(after - layout_.tensors.begin()) - 1;
  if (layout_.tensors[i].range.begin != element || parameter.sizes() != trained_[i].sizes()) return std::nullopt;
  return i;
}

std::vector<torch::Tensor> FlatModel::parts_of(const torch::Tensor& parameter) const {
  if (divided_parts_.empty() || index_of(parameter) != buckets_.divided) return {};
  return divided_parts_;
}

}  // namespace ripieno::train
