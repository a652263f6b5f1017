// Adam (Kingma and Ba, "Adam: a method for stochastic optimization", 2015) and AdamW (Loshchilov and Hutter, "Decoupled
// weight decay regularization", 2019), as in torch.optim.Adam and AdamW. State: two numbers per parameter. Step t = 1,
// 2, ...:
//   1. adam:  g <- gradient + weight_decay * w
//      adamw: g <- gradient;  w <- w * (1 - learning_rate * weight_decay)
//   2. m <- beta1 * m + (1 - beta1) * g
//   3. v <- beta2 * v + (1 - beta2) * g * g
//   4. w <- w - learning_rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
#pragma once

#include "ripieno/optim/flat_state.h"
#include "ripieno/optim/optimiser.h"

namespace ripieno::optim {

class Adam : public Optimiser {
 public:
  enum class WeightDecay { l2, decoupled };

  /// Options must have passed make_optimiser()'s checks.
  Adam(const OptimiserOptions& options, WeightDecay decay, std::size_t elements, DType type);
  void begin_step() override { state_.begin_step(); }
  void update(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate) override;
  void visit(StateVisitor& visitor) override { state_.visit(visitor); }

 private:
  template <class T>
  void update_as(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate);

  OptimiserOptions options_;
  WeightDecay decay_;
  FlatState state_;
};

}  // namespace ripieno::optim
