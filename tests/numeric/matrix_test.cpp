#include "ripieno/numeric/matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ripieno/core/error.h"
#include "ripieno/core/random.h"

namespace ripieno::numeric {
namespace {

template <class T>
std::vector<T> random_numbers(std::size_t n, std::uint64_t stream) {
  Random random(7, stream);
  std::vector<T> numbers(n);
  for (T& x : numbers) x = static_cast<T>(random.uniform(-1, 1));
  return numbers;
}

/// Against three loops, for sizes that are no multiples of anything, past the block of depth 256.
template <class T>
void follows_the_definition(double tolerance) {
  for (const std::size_t rows : {1, 5, 6, 13}) {
    for (const std::size_t inner : {1, 7, 300, 513}) {
      for (const std::size_t columns : {1, 16, 33, 70}) {
        for (const Right right : {Right::plain, Right::transposed}) {
          for (const T beta : {T(0), T(1), T(-0.5)}) {
            const auto a = random_numbers<T>(rows * inner, 1), b = random_numbers<T>(inner * columns, 2);
            auto c = random_numbers<T>(rows * columns, 3);
            const auto before = c;
            if (beta == 0) c.assign(c.size(), std::numeric_limits<T>::quiet_NaN());  // not read
            const Matrix<const T> of_b = right == Right::plain ? Matrix<const T>{b.data(), inner, columns}
                                                               : Matrix<const T>{b.data(), columns, inner};
            multiply(T(1.5), Matrix<const T>{a.data(), rows, inner}, of_b, right, beta,
                     Matrix<T>{c.data(), rows, columns});
            for (std::size_t i = 0; i < rows; ++i) {
              for (std::size_t j = 0; j < columns; ++j) {
                double sum = 0;
                for (std::size_t k = 0; k < inner; ++k) {
                  sum += static_cast<double>(a[i * inner + k]) *
                         (right == Right::plain ? b[k * columns + j] : b[j * inner + k]);
                }
                const double due = 1.5 * sum + static_cast<double>(beta) * before[i * columns + j];
                ASSERT_NEAR(c[i * columns + j], due, tolerance * std::sqrt(static_cast<double>(inner)))
                    << rows << " x " << inner << " x " << columns << " at " << i << ", " << j;
              }
            }
          }
        }
      }
    }
  }
}

TEST(Matrix, ProductsFollowTheDefinitionInFp32) { follows_the_definition<float>(4e-6); }
TEST(Matrix, ProductsFollowTheDefinitionInFp64) { follows_the_definition<double>(1e-14); }

TEST(Matrix, RefusesSizesThatDoNotFit) {
  std::vector<float> a(6), b(6), c(4);
  const Matrix<const float> left{a.data(), 2, 3}, right{b.data(), 2, 3};
  const Matrix<float> out{c.data(), 2, 2};
  EXPECT_THROW(multiply(1.0f, left, right, Right::plain, 0.0f, out), Error);
  EXPECT_NO_THROW(multiply(1.0f, left, right, Right::transposed, 0.0f, out));
}

}  // namespace
}  // namespace ripieno::numeric
