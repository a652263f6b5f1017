#include "ripieno/optim/muon.h"

#include <cmath>

#include "ripieno/numeric/matrix.h"

namespace ripieno::optim {
namespace {

template <class T>
double norm(const T* x, std::size_t n) {
  double squares[8] = {};
  for (std::size_t i = 0; i < n; ++i) squares[i % 8] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  double sum = 0;
  for (const double part : squares) sum += part;
  return std::sqrt(sum);
}

template <class T>
std::vector<T> transposed(const T* matrix, std::size_t rows, std::size_t columns) {
  std::vector<T> out(rows * columns);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) out[c * rows + r] = matrix[r * columns + c];
  }
  return out;
}

}  // namespace

template <class T>
void orthogonalise(T* matrix, std::size_t rows, std::size_t columns, int times) {
  constexpr T a = T(3.4445), b = T(-4.7750), c = T(2.0315);
  const std::size_t n = rows * columns;
  const bool tall = rows > columns;
  std::vector<T> x = tall ? transposed(matrix, rows, columns) : std::vector<T>(matrix, matrix + n);
  if (tall) std::swap(rows, columns);
  const T factor = static_cast<T>(1 / (norm(x.data(), n) + 1e-7));
  for (T& value : x) value *= factor;

  std::vector<T> next(n), square(rows * rows), polynomial(rows * rows);
  const auto of = [](std::vector<T>& m, std::size_t r, std::size_t k) { return numeric::Matrix<T>{m.data(), r, k}; };
  const auto from = [](const std::vector<T>& m, std::size_t r, std::size_t k) {
    return numeric::Matrix<const T>{m.data(), r, k};
  };
  for (int i = 0; i < times; ++i) {
    numeric::multiply(T(1), from(x, rows, columns), from(x, rows, columns), numeric::Right::transposed, T(0),
                      of(square, rows, rows));
    polynomial = square;
    numeric::multiply(c, from(square, rows, rows), from(square, rows, rows), numeric::Right::plain, b,
                      of(polynomial, rows, rows));
    next = x;
    numeric::multiply(T(1), from(polynomial, rows, rows), from(x, rows, columns), numeric::Right::plain, a,
                      of(next, rows, columns));
    std::swap(x, next);
  }
  if (tall) x = transposed(x.data(), rows, columns);
  std::copy(x.begin(), x.end(), matrix);
}
template void orthogonalise(float*, std::size_t, std::size_t, int);
template void orthogonalise(double*, std::size_t, std::size_t, int);

Muon::Muon(const OptimiserOptions& options, std::size_t elements, DType type)
    : options_(options), state_(elements, type, {"optimiser.momentum"}) {
  for (const TensorShape& tensor : options_.tensors) {
    require(tensor.rows > 0 && tensor.end > tensor.begin && (tensor.end - tensor.begin) % tensor.rows == 0,
            "muon: numbers [", tensor.begin, ", ", tensor.end, ") are no matrix of ", tensor.rows, " rows");
  }
}

template <class T>
void Muon::update_matrix(const TensorShape& tensor, T* w, const T* gradient, double learning_rate) {
  const std::size_t n = tensor.end - tensor.begin;
  T* const m = state_.part<T>(0, tensor.begin, n);
  const T momentum = static_cast<T>(options_.momentum);
  std::vector<T> g(n);
  for (std::size_t i = 0; i < n; ++i) {
    m[i] = momentum * m[i] + gradient[i];
    g[i] = options_.nesterov ? gradient[i] + momentum * m[i] : m[i];
  }
  orthogonalise(g.data(), tensor.rows, n / tensor.rows, options_.newton_schulz);
  const double length = options_.normalise ? norm(w, n) : 0;
  const T factor = static_cast<T>(length > 0 ? std::sqrt(static_cast<double>(tensor.rows)) / length : 1);
  const T rate = static_cast<T>(learning_rate);
  for (std::size_t i = 0; i < n; ++i) w[i] = w[i] * factor - rate * g[i];
}

void Muon::update(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate) {
  if (!state_.accepts(offset, weights, gradients)) return;
  const std::size_t end = offset + weights.count;
  for (const TensorShape& tensor : options_.tensors) {
    if (tensor.end <= offset || tensor.begin >= end) continue;
    require(offset <= tensor.begin && tensor.end <= end, "muon: the part [", offset, ", ", end, ") cuts the matrix [",
            tensor.begin, ", ", tensor.end, ")");
    const std::size_t at = tensor.begin - offset;
    if (weights.type == DType::fp32) {
      update_matrix(tensor, weights.as<float>().data() + at, gradients.as<float>().data() + at, learning_rate);
    } else {
      update_matrix(tensor, weights.as<double>().data() + at, gradients.as<double>().data() + at, learning_rate);
    }
  }
}

}  // namespace ripieno::optim
