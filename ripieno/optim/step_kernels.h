// The loops of sgd.h and adam.h over n numbers of fp32 or fp64, with the widest vectors that the machine has, chosen at
// run time (Highway). Every product and sum is rounded separately, so that every machine gets the same bits. Internal
// to optim/.
#pragma once

#include <cstddef>

namespace ripieno::optim {

/// A decay of 0 is skipped: 0 * w would turn an infinite weight into NaN.
template <class T>
struct SgdRates {
  T learning_rate, weight_decay;
  T momentum = 0;
  bool first = false, nesterov = false;
};

/// Changes w and, unless m is null (no momentum), m. The arrays must not overlap.
template <class T>
void sgd_step(T* w, const T* gradient, T* m, std::size_t n, const SgdRates<T>& by);

/// All are computed in double and rounded once, as PyTorch rounds a scalar to the tensor's type.
template <class T>
struct AdamRates {
  T l2;          ///< adam: weight decay; 0: none
  T keep;        ///< adamw: factor of a weight, 1 - learning rate * weight decay; 1: no decay
  T first;       ///< 1 - beta1
  T second;      ///< beta2
  T new_second;  ///< 1 - beta2
  T step_size;   ///< learning rate / (1 - beta1^t)
  T correction;  ///< sqrt(1 - beta2^t)
  T epsilon;
};

/// Changes w, m and v. The arrays must not overlap.
template <class T>
void adam_step(T* w, const T* gradient, T* m, T* v, std::size_t n, const AdamRates<T>& by);

}  // namespace ripieno::optim
