#include "ripieno/optim/step_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ripieno/optim/step_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ripieno::optim::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls body(tag, i) for whole vectors from number i on, then one by one for the rest.
template <class T, class Body>
HWY_INLINE void over(std::size_t n, Body body) {
  const hn::ScalableTag<T> vectors;
  const hn::CappedTag<T, 1> one;
  std::size_t i = 0;
  for (; i + hn::Lanes(vectors) <= n; i += hn::Lanes(vectors)) body(vectors, i);
  for (; i < n; ++i) body(one, i);
}

template <class T>
HWY_INLINE void sgd(T* HWY_RESTRICT w, const T* HWY_RESTRICT gradient, T* HWY_RESTRICT m, std::size_t n,
                    const SgdRates<T> by) {
  over<T>(n, [=](auto d, std::size_t i) HWY_ATTR {
    const auto weight = hn::LoadU(d, w + i);
    auto g = hn::LoadU(d, gradient + i);
    if (by.weight_decay != 0) g = hn::Add(g, hn::Mul(hn::Set(d, by.weight_decay), weight));
    if (m) {
      const auto momentum = hn::Set(d, by.momentum);
      const auto speed = by.first ? g : hn::Add(hn::Mul(momentum, hn::LoadU(d, m + i)), g);
      hn::StoreU(speed, d, m + i);
      g = by.nesterov ? hn::Add(g, hn::Mul(momentum, speed)) : speed;
    }
    hn::StoreU(hn::Sub(weight, hn::Mul(hn::Set(d, by.learning_rate), g)), d, w + i);
  });
}

/// The mean moves as in torch.lerp, from the nearer end.
template <class T>
HWY_INLINE void adam(T* HWY_RESTRICT w, const T* HWY_RESTRICT gradient, T* HWY_RESTRICT m, T* HWY_RESTRICT v,
                     std::size_t n, const AdamRates<T> by) {
  over<T>(n, [=](auto d, std::size_t i) HWY_ATTR {
    auto weight = hn::LoadU(d, w + i);
    auto g = hn::LoadU(d, gradient + i);
    if (by.l2 != 0) g = hn::Add(g, hn::Mul(hn::Set(d, by.l2), weight));
    if (by.keep != 1) weight = hn::Mul(weight, hn::Set(d, by.keep));
    auto mean = hn::LoadU(d, m + i);
    const auto way = hn::Sub(g, mean);
    mean = by.first >= T(0.5) ? hn::Sub(g, hn::Mul(way, hn::Set(d, T(1) - by.first)))
                              : hn::Add(mean, hn::Mul(hn::Set(d, by.first), way));
    hn::StoreU(mean, d, m + i);
    const auto square =
        hn::Add(hn::Mul(hn::Set(d, by.second), hn::LoadU(d, v + i)), hn::Mul(hn::Mul(hn::Set(d, by.new_second), g), g));
    hn::StoreU(square, d, v + i);
    const auto length = hn::Add(hn::Div(hn::Sqrt(square), hn::Set(d, by.correction)), hn::Set(d, by.epsilon));
    hn::StoreU(hn::Sub(weight, hn::Div(hn::Mul(hn::Set(d, by.step_size), mean), length)), d, w + i);
  });
}

void Sgd32(float* w, const float* g, float* m, std::size_t n, const SgdRates<float>& by) { sgd(w, g, m, n, by); }
void Sgd64(double* w, const double* g, double* m, std::size_t n, const SgdRates<double>& by) { sgd(w, g, m, n, by); }
void Adam32(float* w, const float* g, float* m, float* v, std::size_t n, const AdamRates<float>& by) {
  adam(w, g, m, v, n, by);
}
void Adam64(double* w, const double* g, double* m, double* v, std::size_t n, const AdamRates<double>& by) {
  adam(w, g, m, v, n, by);
}

}  // namespace ripieno::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ripieno::optim {

HWY_EXPORT(Sgd32);
HWY_EXPORT(Sgd64);
HWY_EXPORT(Adam32);
HWY_EXPORT(Adam64);

template <>
void sgd_step(float* w, const float* gradient, float* m, std::size_t n, const SgdRates<float>& by) {
  HWY_DYNAMIC_DISPATCH(Sgd32)(w, gradient, m, n, by);
}
template <>
void sgd_step(double* w, const double* gradient, double* m, std::size_t n, const SgdRates<double>& by) {
  HWY_DYNAMIC_DISPATCH(Sgd64)(w, gradient, m, n, by);
}
template <>
void adam_step(float* w, const float* gradient, float* m, float* v, std::size_t n, const AdamRates<float>& by) {
  HWY_DYNAMIC_DISPATCH(Adam32)(w, gradient, m, v, n, by);
}
template <>
void adam_step(double* w, const double* gradient, double* m, double* v, std::size_t n, const AdamRates<double>& by) {
  HWY_DYNAMIC_DISPATCH(Adam64)(w, gradient, m, v, n, by);
}

}  // namespace ripieno::optim
#endif  // HWY_ONCE
