#include "ripieno/optim/sgd.h"

#include "ripieno/optim/step_kernels.h"

namespace ripieno::optim {

Sgd::Sgd(const OptimiserOptions& options, std::size_t elements, DType type)
    : options_(options),
      state_(elements, type,
             options.momentum == 0 ? std::vector<const char*>{} : std::vector<const char*>{"optimiser.momentum"}) {}

template <class T>
void Sgd::update_as(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate) {
  T* w = weights.as<T>().data();
  const T* g = gradients.as<T>().data();
  const std::size_t n = weights.count;
  T* m = options_.momentum == 0 ? nullptr : state_.part<T>(0, offset, n);
  sgd_step<T>(w, g, m, n,
              {static_cast<T>(learning_rate), static_cast<T>(options_.weight_decay), static_cast<T>(options_.momentum),
               state_.step() == 1, options_.nesterov});
}

void Sgd::update(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate) {
  if (!state_.accepts(offset, weights, gradients)) return;
  if (weights.type == DType::fp32) {
    update_as<float>(offset, weights, gradients, learning_rate);
  } else {
    update_as<double>(offset, weights, gradients, learning_rate);
  }
}

}  // namespace ripieno::optim
