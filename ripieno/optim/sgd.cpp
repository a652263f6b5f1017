#include "ripieno/optim/sgd.h"

namespace ripieno {
namespace {

using Names = std::vector<const char*>;

template <class T>
struct Rates {
  T momentum, weight_decay, learning_rate;
};

// Decay is a template parameter, as 0 * w is not nothing: it turns an infinite weight into NaN.
template <bool decay, class T>
void plain(T* __restrict__ w, const T* __restrict__ gradient, std::size_t n, Rates<T> by) {
  for (std::size_t i = 0; i < n; ++i) {
    const T g = decay ? gradient[i] + by.weight_decay * w[i] : gradient[i];
    w[i] -= by.learning_rate * g;
  }
}

template <bool decay, bool first, bool nesterov, class T>
void with_momentum(T* __restrict__ w, const T* __restrict__ gradient, T* __restrict__ m, std::size_t n,
                   Rates<T> by) {
  for (std::size_t i = 0; i < n; ++i) {
    const T g = decay ? gradient[i] + by.weight_decay * w[i] : gradient[i];
    m[i] = first ? g : by.momentum * m[i] + g;
    w[i] -= by.learning_rate * (nesterov ? g + by.momentum * m[i] : m[i]);
  }
}

}  // namespace

Sgd::Sgd(const OptimiserOptions& options, std::size_t elements, DType type)
    : options_(options),
      state_(elements, type, options.momentum == 0 ? Names{} : Names{"optimiser.momentum"}) {}

template <class T>
void Sgd::update_as(std::size_t offset, FloatSpan weights, FloatSpan gradients, double learning_rate) {
  T* w = weights.as<T>().data();
  const T* g = gradients.as<T>().data();
  const std::size_t n = weights.count;
  const Rates<T> by{static_cast<T>(options_.momentum), static_cast<T>(options_.weight_decay),
                    static_cast<T>(learning_rate)};
  const bool decay = options_.weight_decay != 0;
  if (options_.momentum == 0) return (decay ? plain<true, T> : plain<false, T>)(w, g, n, by);

  using Loop = void (*)(T*, const T*, T*, std::size_t, Rates<T>);
  static constexpr Loop loops[2][2][2] = {  // [decay][first][nesterov]
      {{with_momentum<false, false, false, T>, with_momentum<false, false, true, T>},
       {with_momentum<false, true, false, T>, with_momentum<false, true, true, T>}},
      {{with_momentum<true, false, false, T>, with_momentum<true, false, true, T>},
       {with_momentum<true, true, false, T>, with_momentum<true, true, true, T>}}};
  loops[decay][state_.step() == 1][options_.nesterov](w, g, state_.part<T>(0, offset, n), n, by);
}

void Sgd::update(std::size_t offset, FloatSpan weights, FloatSpan gradients, double learning_rate) {
  if (!state_.accepts(offset, weights, gradients)) return;
  if (weights.type == DType::fp32) {
    update_as<float>(offset, weights, gradients, learning_rate);
  } else {
    update_as<double>(offset, weights, gradients, learning_rate);
  }
}

}  // namespace ripieno
