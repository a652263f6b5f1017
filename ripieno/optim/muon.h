// Muon (Jordan et al., "Muon: an optimizer for hidden layers in neural networks", kellerjordan.github.io/posts/muon,
// 2024; as in github.com/KellerJordan/cifar10-airbench): every matrix moves by its momentum with all singular values
// brought near 1. A tensor of more than two dimensions counts as a matrix whose rows are its first dimension. State:
// one number per parameter. A step:
//   1. m <- momentum * m + gradient
//   2. g <- gradient + momentum * m with nesterov, else m
//   3. with normalise: w <- w * sqrt(rows) / |w|, which a normalisation layer after it compensates
//   4. x <- g / |g|; a few times (Newton-Schulz, of fifth order):
//        A = x x^T;  x <- a x + (b A + c A A) x,  (a, b, c) = (3.4445, -4.7750, 2.0315)
//      (with g^T if g has more rows than columns). Singular values end between about 0.5 and 1.5.
//   5. w <- w - learning_rate * x
// Work: 4 r^2 n + 2 r^3 operations per iteration for r x n numbers, r <= n.
#pragma once

#include <vector>

#include "ripieno/optim/flat_state.h"
#include "ripieno/optim/optimiser.h"

namespace ripieno::optim {

/// Step 4: replaces `matrix` (rows x columns, row-major) by its x. T is float or double.
template <class T>
void orthogonalise(T* matrix, std::size_t rows, std::size_t columns, int times);

class Muon : public Optimiser {
 public:
  /// Options must have passed make_optimiser()'s checks; their `tensors` are consecutive matrices. There is no weight
  /// decay. An updated part must hold each matrix wholly or not at all: Error(internal) otherwise.
  Muon(const OptimiserOptions& options, std::size_t elements, DType type);
  void begin_step() override { state_.begin_step(); }
  void update(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate) override;
  bool by_matrices() const override { return true; }
  void visit(StateVisitor& visitor) override { state_.visit(visitor); }

 private:
  template <class T>
  void update_matrix(const TensorShape& tensor, T* w, const T* gradient, double learning_rate);

  OptimiserOptions options_;
  FlatState state_;
};

}  // namespace ripieno::optim
