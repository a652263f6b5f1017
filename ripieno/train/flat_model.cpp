#include "ripieno/train/flat_model.h"

#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace ripieno {

/// What the autograd hooks share with the model: they may outlive it.
struct FlatModel::Watch {
  /// What is still to come of each bucket's pieces.
  struct Tally {
    std::vector<std::size_t> left;
    std::vector<std::vector<bool>> seen;  // of each tensor's pieces

    /// Whether this was the bucket's last.
    bool completes(std::size_t tensor, std::size_t piece, std::size_t bucket) {
      if (seen[tensor][piece]) return false;
      seen[tensor][piece] = true;
      return --left[bucket] == 0;
    }
  };
  FlatModel* model;
  Tally gradients, uses;
  std::vector<c10::intrusive_ptr<torch::autograd::Node>> accumulators;  // kept alive: a parameter holds its own weakly

  /// What computed a tensor's gradient has ended.
  void accumulated(std::size_t tensor) {
    if (!model) return;
    if (model->renewing_) model->accumulated(tensor);
    written(tensor);
    const auto& buckets = model->buckets_of_[tensor];
    for (std::size_t piece = buckets.size(); piece-- > 0;) {
      if (model->on_released && uses.completes(tensor, piece, buckets[piece])) model->on_released(buckets[piece]);
    }
  }

  void written(std::size_t tensor) {
    for (std::size_t piece = model->buckets_of_[tensor].size(); piece-- > 0;) written(tensor, piece);
  }

  void written(std::size_t tensor, std::size_t piece) {
    const std::size_t bucket = model->buckets_of_[tensor][piece];
    if (!model->on_ready) return;
    if (gradients.left[bucket] == 0) model->added_too_late_ = true;
    if (!gradients.completes(tensor, piece, bucket)) return;
    model->collect_gradients(bucket);
    model->on_ready(bucket);
  }
};

namespace {

torch::Tensor rows_of(const torch::Tensor& tensor, Range rows) {
  return tensor.narrow(0, static_cast<std::int64_t>(rows.begin), static_cast<std::int64_t>(rows.size()));
}

DType dtype_of_tensor(const torch::Tensor& tensor, const std::string& name) {
  if (tensor.scalar_type() == torch::kFloat32) return DType::fp32;
  if (tensor.scalar_type() == torch::kFloat64) return DType::fp64;
  fail(ErrorKind::usage, "parameter ", name, " is of type ", tensor.scalar_type(), "; fp32 and fp64 can be trained");
}

void check_like(const torch::TensorOptions& kind, const char* what, const std::string& name, const torch::Tensor& tensor) {
  if (tensor.device() != kind.device()) fail(ErrorKind::usage, what, " ", name, " is on ", tensor.device(), ", others are on ", kind.device());
  if (tensor.dtype() != kind.dtype()) {
    fail(ErrorKind::usage, what, " ", name, " is of type ", tensor.scalar_type(), ", others are of ", c10::typeMetaToScalarType(kind.dtype()));
  }
}

/// `flat`'s elements from `offset` on as a tensor like `like`.
torch::Tensor view_of(const torch::Tensor& flat, std::int64_t offset, const torch::Tensor& like, bool channels_last) {
  const torch::Tensor part = flat.narrow(0, offset, like.numel());
  if (!channels_last || like.dim() != 4) return part.view(like.sizes());
  const auto s = like.sizes();
  return part.view({s[0], s[2], s[3], s[1]}).permute({0, 3, 1, 2});
}

/// So many zeros; on the CPU in memory that may be exchanged.
torch::Tensor flat_tensor(std::int64_t elements, const torch::TensorOptions& kind, const Memory& memory) {
  if (!kind.device().is_cpu()) return torch::zeros({elements}, kind);
  auto lies = memory(static_cast<std::size_t>(elements) * kind.dtype().itemsize());
  void* const data = lies.get();
  return torch::from_blob(data, {elements}, [lies = std::move(lies)](void*) mutable { lies.reset(); }, kind);
}

/// How often a loss comes by each of these nodes.
std::vector<std::size_t> edges_to(const std::vector<c10::intrusive_ptr<torch::autograd::Node>>& nodes, const torch::Tensor& loss) {
  std::unordered_map<const torch::autograd::Node*, std::size_t> index;
  for (std::size_t i = 0; i < nodes.size(); ++i) index.emplace(nodes[i].get(), i);
  std::vector<std::size_t> found(nodes.size());
  std::vector<const torch::autograd::Node*> to_visit{loss.grad_fn().get()};
  std::unordered_set<const torch::autograd::Node*> known{to_visit[0]};
  while (!to_visit.empty()) {
    const auto* node = to_visit.back();
    to_visit.pop_back();
    for (const auto& edge : node->next_edges()) {
      if (const auto at = index.find(edge.function.get()); at != index.end()) ++found[at->second];
      if (edge.function && known.insert(edge.function.get()).second) to_visit.push_back(edge.function.get());
    }
  }
  return found;
}

/// One flat tensor that the given ones become views of.
torch::Tensor flatten(std::vector<torch::Tensor>& tensors, const torch::TensorOptions& kind, const FlatOptions& options, bool channels_last) {
  std::int64_t elements = 0;
  for (const auto& tensor : tensors) elements += tensor.numel();
  torch::Tensor flat = flat_tensor(elements, kind, options.memory);
  std::int64_t offset = 0;
  for (auto& tensor : tensors) {
    const torch::Tensor view = view_of(flat, offset, tensor, channels_last);
    view.copy_(tensor.detach());
    tensor.set_data(view);
    offset += view.numel();
  }
  return flat;
}

NumberSpan span_of(const torch::Tensor& tensor, DType type) {
  if (!tensor.defined() || tensor.numel() == 0) return NumberSpan(nullptr, 0, type);
  return NumberSpan(tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), type);
}

}  // namespace

FlatModel::FlatModel(std::shared_ptr<torch::nn::Module> module, FlatOptions options) : module_(std::move(module)) {
  if (!module_) fail(ErrorKind::usage, "there is no model: the pointer to it is null");
  const torch::NoGradGuard no_grad;
  std::unordered_set<const void*> known;
  std::vector<torch::Tensor> frozen, buffers;
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
    if (tensor.scalar_type() != c10::typeMetaToScalarType(kind->dtype()) || !known.insert(tensor.unsafeGetTensorImpl()).second) continue;
    check_like(*kind, "buffer", item.key(), tensor);
    buffers.push_back(tensor);
  }
  device_.parameters = flatten(trained_, *kind, options, options.channels_last);
  device_.frozen = flatten(frozen, *kind, options, options.channels_last);
  device_.buffers = flatten(buffers, *kind, options, false);
  device_.gradients = flat_tensor(device_.parameters.numel(), *kind, options.memory);
  layout_.buffers = static_cast<std::size_t>(device_.buffers.numel());
  for (const auto& item : module_->named_parameters()) settle(item.key(), item.value());
  for (const auto& item : module_->named_buffers()) {
    if (item.value().scalar_type() == c10::typeMetaToScalarType(kind->dtype())) settle(item.key(), item.value());
  }
  choose_sample();

  for (std::size_t i = 0; i < trained_.size(); ++i) {
    // Not a view in autograd's sense: an optimiser's zero_grad() may detach it in place.
    const torch::Tensor view = view_of(device_.gradients, static_cast<std::int64_t>(layout_.tensors[i].range.begin), trained_[i],
                                       options.channels_last);
    gradient_views_.push_back(torch::empty({0}, *kind).set_(view.storage(), view.storage_offset(), view.sizes(), view.strides()));
    trained_[i].mutable_grad() = gradient_views_[i];
  }

  const auto layer_of = [&](std::size_t i) {
    const std::string& name = layout_.tensors[i].name;
    return name.substr(0, name.rfind('.'));
  };
  while (first_layer_ < trained_.size() && layer_of(first_layer_) == layer_of(0)) ++first_layer_;

  make_buckets(options);
  host_ = device_;
  if (!kind->device().is_cpu()) lie_on_host_too(options.memory);

  watch_ = std::make_shared<Watch>(Watch{this, {}, {}, {}});
  watch_anew();
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(trained_[i]);
    std::weak_ptr<Watch> watch = watch_;  // the hook lives in the accumulator, which the watch keeps alive
    accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [watch, i](const torch::autograd::variable_list& outputs, const torch::autograd::variable_list&) {
          if (const auto alive = watch.lock()) alive->accumulated(i);
          return outputs;
        }));
    watch_->accumulators.push_back(std::move(accumulator));
  }
}

FlatModel::~FlatModel() { watch_->model = nullptr; }

/// From the last parameter to the first: the order in which backward makes gradients ready.
void FlatModel::make_buckets(const FlatOptions& options) {
  buckets_of_.resize(trained_.size());
  std::size_t end = layout_.parameters, pieces = 0;
  for (std::size_t i = trained_.size(); i-- > 0;) {
    const Layout::Tensor& tensor = layout_.tensors[i];
    const std::size_t rows = tensor.shape.empty() ? 1 : std::max<std::size_t>(1, static_cast<std::size_t>(tensor.shape[0]));
    const bool in_halves = options.divide && layout_.buckets.empty() && rows > 1 &&
                           tensor.range.size() * size_of(layout_.type) >= 2 * options.bucket_bytes;
    const int parts = in_halves ? 2 : 1;  // in four, products of matrices get slower than what is gained
    for (int part = parts; part-- > 0;) {
      const Range some = chunk(rows, parts, part);
      buckets_of_[i].insert(buckets_of_[i].begin(), layout_.buckets.size());
      if (in_halves) {
        divided_ = i;
        divided_parts_.insert(divided_parts_.begin(), rows_of(trained_[i].detach(), some));
      }
      ++pieces;
      const std::size_t begin = tensor.range.begin + some.begin * (tensor.range.size() / rows);
      if (part == 0 && i > 0 && (end - begin) * size_of(layout_.type) < options.bucket_bytes) continue;
      layout_.buckets.push_back({begin, end});
      pieces_in_.push_back(std::exchange(pieces, 0));
      end = begin;
    }
  }
}

/// What is exchanged of a module on another device.
void FlatModel::lie_on_host_too(const Memory& memory) {
  for (const auto part : {&Flat::parameters, &Flat::gradients, &Flat::buffers, &Flat::frozen}) {
    const torch::Tensor& there = device_.*part;
    host_.*part = flat_tensor(there.numel(), there.options().device(torch::kCPU), memory);
    (host_.*part).copy_(there);
  }
  const auto cut = [](const Flat& flat, const Range& range) {
    const auto of = [&](const torch::Tensor& all) {
      return all.narrow(0, static_cast<std::int64_t>(range.begin), static_cast<std::int64_t>(range.end - range.begin));
    };
    return Flat{of(flat.parameters), of(flat.gradients), {}, {}};
  };
  for (const Range& bucket : layout_.buckets) {
    device_buckets_.push_back(cut(device_, bucket));
    host_buckets_.push_back(cut(host_, bucket));
  }
}

NumberSpan FlatModel::parameters() const { return span_of(host_.parameters, layout_.type); }
NumberSpan FlatModel::gradients() const { return span_of(host_.gradients, layout_.type); }
NumberSpan FlatModel::buffers() const { return span_of(host_.buffers, layout_.type); }
NumberSpan FlatModel::frozen() const { return span_of(host_.frozen, layout_.type); }
NumberSpan FlatModel::computed_parameters() const { return span_of(device_.parameters, layout_.type); }
NumberSpan FlatModel::computed_gradients() const { return span_of(device_.gradients, layout_.type); }

void FlatModel::cross(const torch::Tensor& to, const torch::Tensor& from) {
  if (on_host()) return;
  const torch::NoGradGuard no_grad;
  torch::Tensor(to).copy_(from);
}

void FlatModel::parameters_to_device(std::size_t bucket) {
  if (!on_host()) cross(device_buckets_[bucket].parameters, host_buckets_[bucket].parameters);
}
void FlatModel::parameters_to_device() { cross(device_.parameters, host_.parameters); }
void FlatModel::gradients_to_device() { cross(device_.gradients, host_.gradients); }
void FlatModel::buffers_to_device() {
  cross(device_.frozen, host_.frozen);
  cross(device_.buffers, host_.buffers);
}
void FlatModel::state_to_device() {
  parameters_to_device();
  buffers_to_device();
}
void FlatModel::parameters_to_host() { cross(host_.parameters, device_.parameters); }
void FlatModel::buffers_to_host() { cross(host_.buffers, device_.buffers); }

void FlatModel::zero_gradients() {
  device_.gradients.zero_();
  for (std::size_t i = 0; i < trained_.size(); ++i) trained_[i].mutable_grad() = gradient_views_[i];
  renewing_ = false;
  watch_anew();
}

void FlatModel::renew_gradients(const torch::Tensor& loss) {
  for (torch::Tensor& tensor : trained_) tensor.mutable_grad() = torch::Tensor();
  renewing_ = true;
  taken_.assign(trained_.size(), false);
  early_.assign(trained_.size(), false);
  uses_ = loss.defined() && loss.grad_fn() ? edges_to(watch_->accumulators, loss) : std::vector<std::size_t>(trained_.size());
  watch_anew();
}

void FlatModel::watch_anew() {
  Watch::Tally tally{pieces_in_, {}};
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    tally.seen.emplace_back(buckets_of_[i].size());
    if (trained_[i].requires_grad()) continue;
    for (const std::size_t bucket : buckets_of_[i]) --tally.left[bucket];
  }
  watch_->gradients = watch_->uses = std::move(tally);
  crossed_.assign(layout_.buckets.size(), false);
  added_too_late_ = false;
}

void FlatModel::train_first_layer(bool on) {
  for (std::size_t i = 0; i < first_layer_; ++i) trained_[i].set_requires_grad(on);
}

std::optional<std::size_t> FlatModel::index_of(const torch::Tensor& parameter) const {
  const NumberSpan all = computed_parameters();
  const auto* begin = static_cast<const std::byte*>(all.data);
  const auto* address = static_cast<const std::byte*>(parameter.const_data_ptr());
  if (address < begin || address >= begin + all.size_bytes()) return std::nullopt;
  const std::size_t element = static_cast<std::size_t>(address - begin) / size_of(all.type);
  const auto after = std::upper_bound(layout_.tensors.begin(), layout_.tensors.end(), element,
                                      [](std::size_t at, const Layout::Tensor& tensor) { return at < tensor.range.begin; });
  const auto i = static_cast<std::size_t>(after - layout_.tensors.begin()) - 1;
  if (layout_.tensors[i].range.begin != element || parameter.sizes() != trained_[i].sizes()) return std::nullopt;
  return i;
}

torch::Tensor FlatModel::take(const torch::Tensor& parameter) {
  const auto i = renewing_ ? index_of(parameter) : std::nullopt;
  if (!i || taken_[*i] || trained_[*i].grad().defined()) return {};
  taken_[*i] = true;
  return gradient_views_[*i].detach();
}

std::optional<std::size_t> FlatModel::written_early(const torch::Tensor& parameter) {
  const auto i = renewing_ && on_ready ? index_of(parameter) : std::nullopt;
  if (!i || !taken_[*i] || uses_[*i] != 1) return std::nullopt;
  early_[*i] = true;
  return i;
}

void FlatModel::written(const torch::Tensor& parameter) {
  if (const auto i = written_early(parameter)) watch_->written(*i);
}

std::vector<torch::Tensor> FlatModel::parts(const torch::Tensor& parameter) {
  if (divided_parts_.empty() || index_of(parameter) != divided_) return {};
  return divided_parts_;
}

void FlatModel::part_written(const torch::Tensor& parameter, std::size_t part) {
  if (const auto i = written_early(parameter)) watch_->written(*i, part);
}

void FlatModel::collect_gradients() {
  early_.clear();
  for (std::size_t i = 0; i < trained_.size(); ++i) collect_gradient(i);
  for (std::size_t bucket = 0; bucket < layout_.buckets.size(); ++bucket) gradients_to_host(bucket);
  renewing_ = false;
}

void FlatModel::collect_gradients(std::size_t bucket) {
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    if (std::find(buckets_of_[i].begin(), buckets_of_[i].end(), bucket) != buckets_of_[i].end()) collect_gradient(i);
  }
  gradients_to_host(bucket);
}

void FlatModel::gradients_to_host(std::size_t bucket) {
  if (on_host() || crossed_[bucket]) return;
  cross(host_buckets_[bucket].gradients, device_buckets_[bucket].gradients);
  crossed_[bucket] = true;
}

void FlatModel::accumulated(std::size_t i) {
  if (!early_[i]) return collect_gradient(i);
  early_[i] = false;
  trained_[i].mutable_grad() = gradient_views_[i];  // whatever autograd made of it: who was told may have changed it by now
}

void FlatModel::collect_gradient(std::size_t i) {
  if (!early_.empty() && early_[i]) return;
  const torch::NoGradGuard no_grad;
  torch::Tensor gradient = trained_[i].grad();
  if (gradient.defined() && gradient.layout() != torch::kStrided) gradient = gradient.to_dense();  // as an embedding's with sparse(true)
  if (gradient.defined() && gradient.data_ptr() == gradient_views_[i].data_ptr()) return;
  if (gradient.defined()) {
    gradient_views_[i].copy_(gradient);
  } else {
    gradient_views_[i].zero_();
  }
  trained_[i].mutable_grad() = gradient_views_[i];
}

}  // namespace ripieno
