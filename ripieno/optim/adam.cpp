#include "ripieno/optim/adam.h"

#include <cmath>

#include "ripieno/optim/step_kernels.h"

namespace ripieno::optim {

Adam::Adam(const OptimiserOptions& options, WeightDecay decay, std::size_t elements, DType type)
    : options_(options), decay_(decay), state_(elements, type, {"optimiser.mean", "optimiser.square"}) {}

template <class T>
void Adam::update_as(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate) {
  const OptimiserOptions& o = options_;
  const double t = static_cast<double>(state_.step());
  const bool l2 = decay_ == WeightDecay::l2;
  const AdamRates<T> by{static_cast<T>(l2 ? o.weight_decay : 0),
                        static_cast<T>(l2 ? 1 : 1 - learning_rate * o.weight_decay),
                        static_cast<T>(1 - o.beta1),
                        static_cast<T>(o.beta2),
                        static_cast<T>(1 - o.beta2),
                        static_cast<T>(learning_rate / (1 - std::pow(o.beta1, t))),
                        static_cast<T>(std::sqrt(1 - std::pow(o.beta2, t))),
                        static_cast<T>(o.epsilon)};
  const std::size_t n = weights.count;
  adam_step<T>(weights.as<T>().data(), gradients.as<T>().data(), state_.part<T>(0, offset, n),
               state_.part<T>(1, offset, n), n, by);
}

void Adam::update(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate) {
  if (!state_.accepts(offset, weights, gradients)) return;
  if (weights.type == DType::fp32) {
    update_as<float>(offset, weights, gradients, learning_rate);
  } else {
    update_as<double>(offset, weights, gradients, learning_rate);
  }
}

}  // namespace ripieno::optim
