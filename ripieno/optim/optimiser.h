// The rule by which weights follow gradients, on flat spans of fp32 or fp64: used for a worker's own step, for the
// outer step of local-steps methods, and on a parameter server. The mathematics is torch.optim's, operation by
// operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ripieno/core/span.h"
#include "ripieno/core/state.h"

namespace ripieno::optim {

/// Calls come from one thread at a time.
class Optimiser {
 public:
  virtual ~Optimiser() = default;

  /// Starts the next step: every update until the next begin_step() belongs to it. Each element of the parameters may
  /// be updated once a step.
  virtual void begin_step() = 0;

  /// Updates weights[i] from gradients[i] for the part of the flat parameters that starts at element `offset` of the
  /// whole; the gradients are not changed. Any partition of the whole (by_matrices(): into whole matrices) gives the
  /// same bits. Spans without data (simulation) are checked and left. Throws Error(internal) on a part outside the
  /// whole, on spans of unlike size or type, and before the first begin_step().
  virtual void update(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate) = 0;

  /// Whether a part that is updated must hold each matrix as a whole or not at all.
  virtual bool by_matrices() const { return false; }

  /// Shows "optimiser.step" (steps begun) and, at their full size even before the first step, the flat state: for sgd
  /// with momentum and muon "optimiser.momentum", for adam and adamw "optimiser.mean" and "optimiser.square"
  /// (by_group.h and lookahead.h say theirs). A walk that overwrites them resumes exactly.
  virtual void visit(StateVisitor&) = 0;
};

/// A tensor of the parameters, for optimisers that do not treat all numbers alike: elements [begin, end).
struct TensorShape {
  std::size_t begin = 0, end = 0;
  std::size_t rows = 0;      ///< of the matrix that it is, its first dimension; 0: a vector, of at most one dimension
  bool first_layer = false;  ///< of the layer that sees the data
};

/// Values out of range are refused whatever the name; those that the named optimiser does not use have no effect.
struct OptimiserOptions {
  std::string name = "sgd";  ///< sgd, adam (weight decay as L2), adamw (decoupled weight decay), muon
  double momentum = 0;       ///< sgd, muon: 0 <= momentum < 1
  double weight_decay = 0;   ///< >= 0
  bool nesterov = false;     ///< sgd, muon: needs momentum > 0
  double beta1 = 0.9;        ///< adam, adamw: 0 <= beta1 < 1
  double beta2 = 0.999;      ///< adam, adamw: 0 <= beta2 < 1
  double epsilon = 1e-8;     ///< adam, adamw: >= 0

  // muon.h: hidden layers' matrices; sgd steps on the others
  int newton_schulz = 5;    ///< iterations, >= 1
  bool normalise = false;   ///< each matrix is kept at the norm sqrt(rows)
  double sgd_momentum = 0;  ///< of the others: 0 <= momentum < 1

  // by_group.h
  double vector_factor = 1;            ///< times the learning rate, of vectors: > 0
  double head_factor = 1;              ///< times the learning rate, of the last matrix: > 0
  std::int64_t first_layer_steps = 0;  ///< after which the first layer rests; 0: never
  std::vector<TensorShape> tensors =
      {};  ///< one after the other, all of the parameters: needed by muon and the three above

  // lookahead.h
  std::int64_t lookahead_every = 0;  ///< steps between two averages; 0: none
  double lookahead_decay = 0.5;      ///< of what was averaged so far, 0 <= decay < 1
  double lookahead_power = 0;        ///< of the fraction of training, times the decay: >= 0
  std::int64_t total_steps = 1;      ///< of training, >= 1
};

/// An optimiser of `elements` parameters of `type`, fp32 or fp64. Throws Error(usage), with the option and its value,
/// on an unknown name (and lists the known ones), a value out of range, or another type.
std::unique_ptr<Optimiser> make_optimiser(const OptimiserOptions& options, std::size_t elements, DType type);

}  // namespace ripieno::optim
