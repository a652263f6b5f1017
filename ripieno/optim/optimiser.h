// An optimiser: updates weights by gradients, on flat spans of fp32 or fp64. Used for a worker's own step, for the
// outer step of methods with local steps, and on a parameter server. It computes as torch.optim, operation by
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

/// For one thread at a time.
class Optimiser {
 public:
  virtual ~Optimiser() = default;

  /// Starts the next step: every update until the next begin_step() belongs to it. Each element may be updated once per
  /// step.
  virtual void begin_step() = 0;

  /// Updates weights[i] from gradients[i] for the part of the flat parameters that starts at element `offset` of the
  /// whole; the gradients are not changed. Any partition of the whole (by_matrices(): into whole matrices) gives the
  /// same bits. Spans without data (simulation) are only checked. Throws Error(internal) on a part outside the whole,
  /// on spans of different sizes or types, and before the first begin_step().
  virtual void update(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate) = 0;

  /// Whether an updated part must hold each matrix wholly or not at all.
  virtual bool by_matrices() const { return false; }

  /// Shows "optimiser.step" (steps begun) and, at their full size even before the first step, the flat state: for sgd
  /// with momentum and muon "optimiser.momentum", for adam and adamw "optimiser.mean" and "optimiser.square"
  /// (for others see by_group.h and lookahead.h). A walk that overwrites them resumes exactly.
  virtual void visit(StateVisitor&) = 0;
};

/// A tensor of the parameters, elements [begin, end), for optimisers that do not treat all elements alike.
struct TensorShape {
  std::size_t begin = 0, end = 0;
  std::size_t rows = 0;      ///< the first dimension of a matrix; 0: a vector (at most one dimension)
  bool first_layer = false;  ///< belongs to the layer that sees the data
};

/// Values out of range are refused for every optimiser; options that the named one does not use have no effect.
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
  bool normalise = false;   ///< keep each matrix at the norm sqrt(rows)
  double sgd_momentum = 0;  ///< for the other tensors: 0 <= momentum < 1

  // by_group.h
  double vector_factor = 1;            ///< factor of the learning rate for vectors, > 0
  double head_factor = 1;              ///< factor of the learning rate for the last matrix, > 0
  std::int64_t first_layer_steps = 0;  ///< steps after which the first layer stops; 0: never
  double first_layer_rate = 0;  ///< its learning rate at first, before factors; falls to 0 in a straight line, in place
                                ///< of the schedule's; needed with first_layer_steps
  std::vector<TensorShape> tensors =
      {};  ///< all tensors of the parameters, consecutive: needed by muon and by the three options above

  // lookahead.h
  std::int64_t lookahead_every = 0;  ///< steps between two averages; 0: none
  double lookahead_decay = 0.5;      ///< weight of the mean so far, 0 <= decay < 1
  double lookahead_power = 0;        ///< exponent of the fraction of training, which multiplies the decay; >= 0
  std::int64_t total_steps = 1;      ///< of training, >= 1
};

/// Makes an optimiser for `elements` parameters of `type`, fp32 or fp64. Throws Error(usage), with the option and its
/// value, on an unknown name (listing the known ones), a value out of range, or another type.
std::unique_ptr<Optimiser> make_optimiser(const OptimiserOptions& options, std::size_t elements, DType type);

}  // namespace ripieno::optim
