#include "ripieno/numeric/matrix.h"

#include <algorithm>
#include <vector>

#include "ripieno/core/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ripieno/numeric/matrix.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ripieno::numeric::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// As Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008: a panel of b, two vectors wide,
// is packed so that it stays in the cache; tiles of 6 rows of c are then added up in registers.
constexpr std::size_t tile_rows = 6, depth = 256;

/// A tile's sums over `k` columns of a. Rows past the last repeat it, which only costs time.
template <class D, class T>
HWY_INLINE void tile(D d, const T* const* a, const T* panel, std::size_t k, T* sums) {
  const std::size_t lanes = hn::Lanes(d);
  auto s00 = hn::Zero(d), s01 = hn::Zero(d), s10 = hn::Zero(d), s11 = hn::Zero(d), s20 = hn::Zero(d), s21 = hn::Zero(d);
  auto s30 = hn::Zero(d), s31 = hn::Zero(d), s40 = hn::Zero(d), s41 = hn::Zero(d), s50 = hn::Zero(d), s51 = hn::Zero(d);
  for (std::size_t i = 0; i < k; ++i) {
    const auto left = hn::Load(d, panel + 2 * i * lanes), right = hn::Load(d, panel + (2 * i + 1) * lanes);
    const auto a0 = hn::Set(d, a[0][i]), a1 = hn::Set(d, a[1][i]), a2 = hn::Set(d, a[2][i]);
    s00 = hn::MulAdd(a0, left, s00), s01 = hn::MulAdd(a0, right, s01);
    s10 = hn::MulAdd(a1, left, s10), s11 = hn::MulAdd(a1, right, s11);
    s20 = hn::MulAdd(a2, left, s20), s21 = hn::MulAdd(a2, right, s21);
    const auto a3 = hn::Set(d, a[3][i]), a4 = hn::Set(d, a[4][i]), a5 = hn::Set(d, a[5][i]);
    s30 = hn::MulAdd(a3, left, s30), s31 = hn::MulAdd(a3, right, s31);
    s40 = hn::MulAdd(a4, left, s40), s41 = hn::MulAdd(a4, right, s41);
    s50 = hn::MulAdd(a5, left, s50), s51 = hn::MulAdd(a5, right, s51);
  }
  const auto store = [&](std::size_t row, auto left, auto right) HWY_ATTR {
    hn::Store(left, d, sums + 2 * row * lanes);
    hn::Store(right, d, sums + (2 * row + 1) * lanes);
  };
  store(0, s00, s01), store(1, s10, s11), store(2, s20, s21), store(3, s30, s31), store(4, s40, s41),
      store(5, s50, s51);
}

template <class T>
HWY_INLINE void multiply_as(T alpha, Matrix<const T> a, Matrix<const T> b, bool transposed, T beta, Matrix<T> c) {
  const hn::CappedTag<T, HWY_MAX_BYTES / sizeof(T)> d;
  const std::size_t width = 2 * hn::Lanes(d), all = a.columns;
  HWY_ALIGN T panel[depth * 2 * HWY_MAX_BYTES / sizeof(T)];
  HWY_ALIGN T sums[tile_rows * 2 * HWY_MAX_BYTES / sizeof(T)];
  if (beta == 0) {
    std::fill_n(c.data, c.rows * c.columns, T(0));
  } else if (beta != 1) {
    for (std::size_t i = 0; i < c.rows * c.columns; ++i) c.data[i] *= beta;
  }
  for (std::size_t first = 0; first < all; first += depth) {
    const std::size_t k = std::min(depth, all - first);
    for (std::size_t column = 0; column < c.columns; column += width) {
      const std::size_t columns = std::min(width, c.columns - column);
      for (std::size_t i = 0; i < k; ++i) {
        for (std::size_t j = 0; j < columns; ++j) {
          panel[i * width + j] =
              transposed ? b.data[(column + j) * b.columns + first + i] : b.data[(first + i) * b.columns + column + j];
        }
        std::fill(panel + i * width + columns, panel + (i + 1) * width, T(0));
      }
      for (std::size_t row = 0; row < c.rows; row += tile_rows) {
        const std::size_t rows = std::min(tile_rows, c.rows - row);
        const T* of_a[tile_rows];
        for (std::size_t r = 0; r < tile_rows; ++r) of_a[r] = a.data + (row + std::min(r, rows - 1)) * all + first;
        tile(d, of_a, panel, k, sums);
        for (std::size_t r = 0; r < rows; ++r) {
          T* const to = c.data + (row + r) * c.columns + column;
          for (std::size_t j = 0; j < columns; ++j) to[j] += alpha * sums[r * width + j];
        }
      }
    }
  }
}

void MultiplyFp32(float alpha, Matrix<const float> a, Matrix<const float> b, bool transposed, float beta,
                  Matrix<float> c) {
  multiply_as(alpha, a, b, transposed, beta, c);
}
void MultiplyFp64(double alpha, Matrix<const double> a, Matrix<const double> b, bool transposed, double beta,
                  Matrix<double> c) {
  multiply_as(alpha, a, b, transposed, beta, c);
}

}  // namespace ripieno::numeric::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ripieno::numeric {
namespace {

HWY_EXPORT(MultiplyFp32);
HWY_EXPORT(MultiplyFp64);

template <class T>
bool fits(const Matrix<const T>& a, const Matrix<const T>& b, Right right, const Matrix<T>& c) {
  const std::size_t rows = right == Right::plain ? b.rows : b.columns,
                    columns = right == Right::plain ? b.columns : b.rows;
  return a.columns == rows && c.rows == a.rows && c.columns == columns;
}

template <class T>
void require_fit(const Matrix<const T>& a, const Matrix<const T>& b, Right right, const Matrix<T>& c) {
  require(fits(a, b, right, c), "a product of ", a.rows, " x ", a.columns, " and ", b.rows, " x ", b.columns,
          right == Right::plain ? "" : " transposed", " into ", c.rows, " x ", c.columns);
}

}  // namespace

template <>
void multiply(float alpha, Matrix<const float> a, Matrix<const float> b, Right right, float beta, Matrix<float> c) {
  require_fit(a, b, right, c);
  HWY_DYNAMIC_DISPATCH(MultiplyFp32)(alpha, a, b, right == Right::transposed, beta, c);
}

template <>
void multiply(double alpha, Matrix<const double> a, Matrix<const double> b, Right right, double beta,
              Matrix<double> c) {
  require_fit(a, b, right, c);
  HWY_DYNAMIC_DISPATCH(MultiplyFp64)(alpha, a, b, right == Right::transposed, beta, c);
}

}  // namespace ripieno::numeric
#endif  // HWY_ONCE
