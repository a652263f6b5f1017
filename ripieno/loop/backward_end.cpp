#include "ripieno/loop/backward_end.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <vector>

namespace ripieno::loop {
namespace {

using Callback = AccumulationHook::Callback;
using torch::autograd::PostAccumulateGradHook;

/// A tensor has one hook; this one calls several, and the one that was there before.
class HookChain final : public PostAccumulateGradHook {
 public:
  explicit HookChain(std::unique_ptr<PostAccumulateGradHook> first) : first_(std::move(first)) {}

  void add(const std::shared_ptr<const Callback>& callback) {
    std::erase_if(callbacks_, [](const auto& one) { return one.expired(); });
    callbacks_.emplace_back(callback);
  }
  bool is_of(AccumulationHook::Owner owner) const {
    return std::any_of(callbacks_.begin(), callbacks_.end(), [owner](const auto& one) {
      const auto alive = one.lock();
      return alive && alive->owner == owner;
    });
  }
  void operator()(const torch::autograd::Variable& tensor) override {
    if (first_) (*first_)(tensor);
    const std::vector<std::weak_ptr<const Callback>> now = callbacks_;  // a callback may add others
    for (const auto& one : now) {
      if (const auto alive = one.lock()) alive->call();
    }
  }

 private:
  std::unique_ptr<PostAccumulateGradHook> first_;
  std::vector<std::weak_ptr<const Callback>> callbacks_;
};

}  // namespace

AccumulationHook::AccumulationHook(const torch::Tensor& parameter, Owner owner, std::function<void()> callback)
    : callback_(std::make_shared<const Callback>(Callback{owner, std::move(callback)})) {
  std::unique_ptr<PostAccumulateGradHook>& present = torch::autograd::impl::post_acc_grad_hooks(parameter);
  auto* chain = dynamic_cast<HookChain*>(present.get());
  if (!chain) {
    auto made = std::make_unique<HookChain>(std::move(present));
    chain = made.get();
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::move(made));
  }
  chain->add(callback_);
}

bool AccumulationHook::watches(const torch::Tensor& parameter, Owner owner) {
  const auto* chain = dynamic_cast<const HookChain*>(torch::autograd::impl::post_acc_grad_hooks(parameter).get());
  return chain && chain->is_of(owner);
}

int current_backward() { return torch::autograd::get_current_graph_task_id(); }

void at_end_of_backward(std::shared_ptr<const std::function<void()>> function) {
  torch::autograd::Engine::get_default_engine().queue_callback([function = std::move(function)] {
    const auto outer = torch::autograd::get_current_node();
    if (!outer) return (*function)();
    // This pass is a part of what another one computes.
    outer->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [function](const torch::autograd::variable_list& outputs, const torch::autograd::variable_list&) {
          at_end_of_backward(function);
          return outputs;
        }));
  });
}

}  // namespace ripieno::loop
