// Products of dense matrices of fp32 or fp64, row by row in memory, on one thread: with the widest vectors that the
// machine has, chosen at run time. For the few products that an optimiser needs; models compute with LibTorch.
#pragma once

#include <cstddef>

namespace ripieno::numeric {

/// `rows` x `columns` numbers, row after row.
template <class T>
struct Matrix {
  T* data = nullptr;
  std::size_t rows = 0, columns = 0;
};

enum class Right { plain, transposed };

/// c <- alpha * a * b + beta * c, where b is given as it is or transposed. c must not overlap a or b; with beta = 0 its
/// old numbers are not read. T is float or double. Throws Error(internal) where the sizes do not fit.
template <class T>
void multiply(T alpha, Matrix<const T> a, Matrix<const T> b, Right right, T beta, Matrix<T> c);

}  // namespace ripieno::numeric
