// This room's only use of LibTorch's internals: hooks after a parameter's gradient was accumulated, and at the end of a
// backward pass.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>

namespace ripieno::loop {

/// Calls a function each time a backward pass has accumulated a parameter's gradient, on the thread of that pass, for
/// as long as this object lives; several do so in the order in which they were made. It belongs to the tensor itself:
/// freezing, unfreezing, and another type (Module::to) leave it there.
class AccumulationHook {
 public:
  enum class Owner { model, run };  ///< a DistributedDataParallel, a RunWriter
  struct Callback {
    Owner owner;
    std::function<void()> call;
  };
  /// `parameter`: a leaf; it need not require a gradient yet.
  AccumulationHook(const torch::Tensor& parameter, Owner owner, std::function<void()> callback);
  /// Whether a hook of such an owner on a parameter lives.
  static bool watches(const torch::Tensor& parameter, Owner owner);

 private:
  std::shared_ptr<const Callback> callback_;
};

/// Tells one backward() of this process from another; -1 outside of all.
int current_backward();

/// From a hook in a backward pass: calls the function once that pass has ended without an error, on its thread, before
/// backward() returns; what it throws, backward() throws. Where a pass runs within another one (activation
/// checkpointing), it is the outermost. A function that can no longer be called is destroyed.
void at_end_of_backward(std::shared_ptr<const std::function<void()>> function);

}  // namespace ripieno::loop
