// Products of dense matrices of fp32 or fp64, row-major, on one thread, with the machine's widest vectors, chosen at
// run time. For the few products that an optimiser needs; models compute with LibTorch.
#pragma once

#include <cstddef>

namespace ripieno::numeric {

/// `rows` x `columns` numbers, row-major.
template <class T>
struct Matrix {
  T* data = nullptr;
  std::size_t rows = 0, columns = 0;
};

enum class Right { plain, transposed };

/// c <- alpha * a * b + beta * c, with b plain or transposed. c must not overlap a or b; with beta = 0 its old numbers
/// are not read. T is float or double. Throws Error(internal) if the sizes do not fit.
template <class T>
void multiply(T alpha, Matrix<const T> a, Matrix<const T> b, Right right, T beta, Matrix<T> c);

}  // namespace ripieno::numeric
