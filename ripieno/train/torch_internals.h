// All that this room needs of LibTorch's internals, which may change with its versions: hooks on gradients, edges of
// autograd's graph, callbacks before operators, and the switches of autocast.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ripieno/core/span.h"

namespace ripieno::train {

/// Calls a function each time autograd has ended with a parameter's gradient in a backward pass: on the thread that
/// runs it, after the gradient was added to, as long as the hook lives. A graph may outlive it.
class GradientHook {
 public:
  /// `parameter` must be a leaf that requires a gradient.
  GradientHook(const torch::Tensor& parameter, std::function<void()> callback);

 private:
  friend std::vector<std::size_t> uses_of(const std::vector<GradientHook>& parameters, const torch::Tensor& loss);

  std::shared_ptr<const std::function<void()>> callback_;
  c10::intrusive_ptr<torch::autograd::Node> accumulator_;  // kept alive: a parameter holds its own weakly
};

/// How often the graph of `loss` uses each of these parameters; zeros where the loss is undefined or has no graph.
std::vector<std::size_t> uses_of(const std::vector<GradientHook>& parameters, const torch::Tensor& loss);

/// Shows a function the memory of every tensor that an operator takes, before the operator runs: from the tensor's
/// first element to its last. Watches the calling thread from its making to its end, both on that thread; one at a
/// time.
class OperatorWatch {
 public:
  using Look = std::function<void(ConstBytes)>;
  /// `kind` names it where there are two on a thread, which is a fault of the program.
  OperatorWatch(const char* kind, Look look);
  ~OperatorWatch();
  OperatorWatch(const OperatorWatch&) = delete;
  OperatorWatch& operator=(const OperatorWatch&) = delete;

 private:
  Look look_;
  std::uint64_t callback_;
};

/// Turns autocast to `type` on as long as it lives; the casts of weights are kept until its end. Without a type it does
/// nothing.
class AutocastSwitch {
 public:
  AutocastSwitch(torch::DeviceType device, std::optional<torch::ScalarType> type);
  ~AutocastSwitch();
  AutocastSwitch(const AutocastSwitch&) = delete;
  AutocastSwitch& operator=(const AutocastSwitch&) = delete;

 private:
  torch::DeviceType device_;
  bool on_, before_;
};

}  // namespace ripieno::train
