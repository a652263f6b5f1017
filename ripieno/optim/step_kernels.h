// The loops of sgd.h and adam.h over n numbers of fp32 or fp64, with the widest vectors that the machine has, chosen at
// run time (Highway). Products and sums are rounded one by one, so that every machine gets the same bits. Internal to
// optim/.
#pragma once

#include <cstddef>

namespace ripieno::optim {

/// A decay of 0 is left out: 0 * w would turn an infinite weight into NaN.
template <class T>
struct SgdRates {
  T learning_rate, weight_decay;
  T momentum = 0;
  bool first = false, nesterov = false;
};

/// w and, unless m is null (no momentum), m are changed. No two of the arrays overlap.
template <class T>
void sgd_step(T* w, const T* gradient, T* m, std::size_t n, const SgdRates<T>& by);

/// All computed in double and then rounded once, as PyTorch rounds a scalar to the tensor's type.
template <class T>
struct AdamRates {
  T l2;          ///< weight decay, of adam; 0: none
  T keep;        ///< of a weight, of adamw: 1 - learning rate * weight decay; 1: all
  T first;       ///< 1 - beta1
  T second;      ///< beta2
  T new_second;  ///< 1 - beta2
  T step_size;   ///< learning rate / (1 - beta1^t)
  T correction;  ///< sqrt(1 - beta2^t)
  T epsilon;
};

/// w, m and v are changed. No two of the arrays overlap.
template <class T>
void adam_step(T* w, const T* gradient, T* m, T* v, std::size_t n, const AdamRates<T>& by);

}  // namespace ripieno::optim
