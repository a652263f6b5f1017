#include "ripieno/train/torch_internals.h"

#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <unordered_map>
#include <unordered_set>

#include "ripieno/core/error.h"

namespace ripieno::train {

GradientHook::GradientHook(const torch::Tensor& parameter, std::function<void()> callback)
    : callback_(std::make_shared<const std::function<void()>>(std::move(callback))),
      accumulator_(torch::autograd::impl::grad_accumulator(parameter)) {
  // LibTorch's hook lives in the accumulator, which a graph may keep.
  const std::weak_ptr<const std::function<void()>> weak = callback_;
  accumulator_->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
      [weak](const torch::autograd::variable_list& outputs, const torch::autograd::variable_list&) {
        if (const auto alive = weak.lock()) (*alive)();
        return outputs;
      }));
}

std::vector<std::size_t> uses_of(const std::vector<GradientHook>& parameters, const torch::Tensor& loss) {
  std::vector<std::size_t> uses(parameters.size());
  if (!loss.defined() || !loss.grad_fn()) return uses;
  std::unordered_map<const torch::autograd::Node*, std::size_t> index;
  for (std::size_t i = 0; i < parameters.size(); ++i) index.emplace(parameters[i].accumulator_.get(), i);
  std::vector<const torch::autograd::Node*> to_visit{loss.grad_fn().get()};
  std::unordered_set<const torch::autograd::Node*> known{to_visit[0]};
  while (!to_visit.empty()) {
    const auto* node = to_visit.back();
    to_visit.pop_back();
    for (const auto& edge : node->next_edges()) {
      if (const auto at = index.find(edge.function.get()); at != index.end()) ++uses[at->second];
      if (edge.function && known.insert(edge.function.get()).second) to_visit.push_back(edge.function.get());
    }
  }
  return uses;
}

namespace {

// LibTorch's callback is a plain function and finds the thread's watch here.
thread_local const OperatorWatch::Look* look_of_thread = nullptr;

void show(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.numel() == 0) return;
  std::int64_t last = 0;  // the last element's offset from the first
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  const auto bytes = (static_cast<std::size_t>(last) + 1) * tensor.element_size();
  (*look_of_thread)({static_cast<const std::byte*>(tensor.const_data_ptr()), bytes});
}

std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction& operation) {
  if (!look_of_thread) return nullptr;
  for (const c10::IValue& input : operation.inputs()) {
    if (input.isTensor()) show(input.toTensor());
    if (input.isTensorList()) {
      for (const at::Tensor& tensor : input.toTensorList()) show(tensor);
    }
  }
  return nullptr;
}

}  // namespace

OperatorWatch::OperatorWatch(const char* kind, Look look) : look_(std::move(look)) {
  require(!look_of_thread, "two ", kind, " watches on one thread");
  look_of_thread = &look_;
  callback_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(before_operator).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

OperatorWatch::~OperatorWatch() {
  at::removeCallback(callback_);
  look_of_thread = nullptr;
}

AutocastSwitch::AutocastSwitch(torch::DeviceType device, std::optional<torch::ScalarType> type)
    : device_(device), on_(type.has_value()), before_(at::autocast::is_autocast_enabled(device)) {
  if (!on_) return;
  at::autocast::set_autocast_dtype(device_, *type);
  at::autocast::set_autocast_enabled(device_, true);
}

AutocastSwitch::~AutocastSwitch() {
  if (!on_) return;
  at::autocast::set_autocast_enabled(device_, before_);
  at::autocast::clear_cache();
}

}  // namespace ripieno::train
