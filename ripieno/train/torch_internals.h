// This room's only use of LibTorch's internals, which may change with its versions: hooks on gradients, edges of
// autograd's graph, callbacks before operators, and the switches of autocast.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ripieno/core/span.h"

namespace ripieno::train {

/// Calls a function each time autograd is done with a parameter's gradient in a backward pass: on the thread of that
/// pass, after the gradient was accumulated, for as long as the hook lives. A graph may outlive the hook.
class GradientHook {
 public:
  /// `parameter` must be a leaf that requires a gradient.
  GradientHook(const torch::Tensor& parameter, std::function<void()> callback);

 private:
  friend std::vector<std::size_t> uses_of(const std::vector<GradientHook>& parameters, const torch::Tensor& loss);

  std::shared_ptr<const std::function<void()>> callback_;
  /// Kept alive: a parameter holds it only weakly. 2.13 counts its references by another pointer than 2.11.
  decltype(torch::autograd::Edge::function) accumulator_;
};

/// How often the graph of `loss` uses each of these parameters; zeros if the loss is undefined or has no graph.
std::vector<std::size_t> uses_of(const std::vector<GradientHook>& parameters, const torch::Tensor& loss);

/// Shows a function the memory of every tensor that an operator takes, before the operator runs: from the tensor's
/// first element to its last. Watches the thread that constructs it, which must also destroy it; one at a time.
class OperatorWatch {
 public:
  using Look = std::function<void(ConstBytes)>;
  /// `kind` names the watch in the error for two on one thread, which is a bug.
  OperatorWatch(const char* kind, Look look);
  ~OperatorWatch();
  OperatorWatch(const OperatorWatch&) = delete;
  OperatorWatch& operator=(const OperatorWatch&) = delete;

 private:
  Look look_;
  std::uint64_t callback_;
};

/// Turns autocast to `type` on for as long as it lives; casts of weights are cached until then. Without a type it does
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
