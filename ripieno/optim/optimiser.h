// The rule by which weights follow gradients, on flat spans of fp32 or fp64: used for a worker's own step, for the
// outer step of local-steps methods, and on a parameter server. The mathematics is torch.optim's, operation by
// operation.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "ripieno/core/span.h"
#include "ripieno/core/state.h"

namespace ripieno {

/// Calls come from one thread at a time.
class Optimiser {
 public:
  virtual ~Optimiser() = default;

  /// Starts the next step: every update until the next begin_step() belongs to it. Each element of the parameters may
  /// be updated once a step.
  virtual void begin_step() = 0;

  /// Updates weights[i] from gradients[i] for the part of the flat parameters that starts at element `offset` of the
  /// whole; the gradients are not changed. Any partition of the whole gives the same bits. Spans without data
  /// (simulation) are checked and left. Throws Error(internal) on a part outside the whole, on spans of unlike size or
  /// type, and before the first begin_step().
  virtual void update(std::size_t offset, FloatSpan weights, FloatSpan gradients, double learning_rate) = 0;

  /// Shows "optimiser.step" (steps begun) and, at their full size even before the first step, the flat state: for sgd
  /// with momentum "optimiser.momentum", for adam and adamw "optimiser.mean" and "optimiser.square". A walk that
  /// overwrites them resumes exactly.
  virtual void visit(StateVisitor&) = 0;
};

/// Values out of range are refused whatever the name; those that the named optimiser does not use have no effect.
struct OptimiserOptions {
  std::string name = "sgd";  ///< sgd, adam (weight decay as L2), adamw (decoupled weight decay)
  double momentum = 0;       ///< sgd: 0 <= momentum < 1
  double weight_decay = 0;   ///< >= 0
  bool nesterov = false;     ///< sgd: needs momentum > 0
  double beta1 = 0.9;        ///< adam, adamw: 0 <= beta1 < 1
  double beta2 = 0.999;      ///< adam, adamw: 0 <= beta2 < 1
  double epsilon = 1e-8;     ///< adam, adamw: >= 0
};

/// An optimiser of `elements` parameters of `type`, fp32 or fp64. Throws Error(usage), with the option and its value,
/// on an unknown name (and lists the known ones), a value out of range, or another type.
std::unique_ptr<Optimiser> make_optimiser(const OptimiserOptions& options, std::size_t elements, DType type);

}  // namespace ripieno
