#include "ripieno/optim/adam.h"

#include <cmath>

namespace ripieno {
namespace {

// All computed in double and then rounded once, as PyTorch rounds a scalar to the tensor's type.
template <class T>
struct Rates {
  T l2, keep, first, second, new_second, step_size, correction, epsilon;
};

// The decays are template parameters, as 0 * w is not nothing: it turns an infinite weight into NaN. The mean moves as
// torch.lerp does, from the nearer end.
template <bool l2, bool decoupled, bool from_new, class T>
void adam(T* __restrict__ w, const T* __restrict__ gradient, T* __restrict__ m, T* __restrict__ v, std::size_t n,
          Rates<T> by) {
  for (std::size_t i = 0; i < n; ++i) {
    const T old = decoupled ? w[i] * by.keep : w[i];
    const T g = l2 ? gradient[i] + by.l2 * w[i] : gradient[i];
    m[i] = from_new ? g - (g - m[i]) * (T(1) - by.first) : m[i] + by.first * (g - m[i]);
    v[i] = by.second * v[i] + by.new_second * g * g;
    w[i] = old - by.step_size * m[i] / (std::sqrt(v[i]) / by.correction + by.epsilon);
  }
}

}  // namespace

Adam::Adam(const OptimiserOptions& options, WeightDecay decay, std::size_t elements, DType type)
    : options_(options), decay_(decay), state_(elements, type, {"optimiser.mean", "optimiser.square"}) {}

template <class T>
void Adam::update_as(std::size_t offset, FloatSpan weights, FloatSpan gradients, double learning_rate) {
  const OptimiserOptions& o = options_;
  const double t = static_cast<double>(state_.step());
  const Rates<T> by{static_cast<T>(o.weight_decay),
                    static_cast<T>(1 - learning_rate * o.weight_decay),
                    static_cast<T>(1 - o.beta1),
                    static_cast<T>(o.beta2),
                    static_cast<T>(1 - o.beta2),
                    static_cast<T>(learning_rate / (1 - std::pow(o.beta1, t))),
                    static_cast<T>(std::sqrt(1 - std::pow(o.beta2, t))),
                    static_cast<T>(o.epsilon)};
  const bool from_new = by.first >= T(0.5);
  const bool decay = o.weight_decay != 0;
  using Loop = void (*)(T*, const T*, T*, T*, std::size_t, Rates<T>);
  static constexpr Loop loops[3][2] = {  // [no decay, L2, decoupled][from_new]
      {adam<false, false, false, T>, adam<false, false, true, T>},
      {adam<true, false, false, T>, adam<true, false, true, T>},
      {adam<false, true, false, T>, adam<false, true, true, T>}};
  const std::size_t n = weights.count;
  loops[!decay ? 0 : decay_ == WeightDecay::l2 ? 1 : 2][from_new](
      weights.as<T>().data(), gradients.as<T>().data(), state_.part<T>(0, offset, n), state_.part<T>(1, offset, n), n,
      by);
}

void Adam::update(std::size_t offset, FloatSpan weights, FloatSpan gradients, double learning_rate) {
  if (!state_.accepts(offset, weights, gradients)) return;
  if (weights.type == DType::fp32) {
    update_as<float>(offset, weights, gradients, learning_rate);
  } else {
    update_as<double>(offset, weights, gradients, learning_rate);
  }
}

}  // namespace ripieno
