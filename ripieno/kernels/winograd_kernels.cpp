#include "ripieno/kernels/winograd_kernels.h"

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ripieno/kernels/winograd_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ripieno/numeric/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ripieno::kernels::HWY_NAMESPACE {
using namespace numeric::HWY_NAMESPACE;
template <std::size_t Rows, std::size_t Columns>
struct SmallMatrix {
  static constexpr std::size_t rows = Rows, columns = Columns;
  float at[Rows][Columns];
  constexpr SmallMatrix<Columns, Rows> transposed() const {
    SmallMatrix<Columns, Rows> found{};
    for (std::size_t i = 0; i < Rows; ++i) {
      for (std::size_t j = 0; j < Columns; ++j) found.at[j][i] = at[i][j];
    }
    return found;
  }
};

/// The points, besides infinity, at which the polynomials of a filter and its pixels are evaluated. For m = 4 the
/// paper's 0, 1, -1, 2 and -2 have more than twice the rounding errors (points chosen as in Alam et al., "Winograd
/// convolution for deep neural networks: efficient point selection", ACM TECS 2022).
template <std::size_t m>
constexpr std::array<double, m + 1> interpolation_points;
template <>
constexpr std::array<double, 3> interpolation_points<2> = {0, 1, -1};
template <>
constexpr std::array<double, 5> interpolation_points<4> = {0, 5. / 8, -5. / 8, 3. / 2, -3. / 2};

/// The paper's B', G and A', made by Toom and Cook's construction: the filter's polynomial and that of the gradient are
/// evaluated at the points, and the product is interpolated, transposed.
template <std::size_t m>
struct Matrices {
  static constexpr std::size_t count = m + 2, finite = m + 1;

  /// The product of (x - p) over all points p but one, or over all of them, lowest power first.
  static constexpr std::array<double, count> product_without(std::size_t but) {
    std::array<double, count> found{1};
    for (std::size_t i = 0; i < finite; ++i) {
      if (i == but) continue;
      for (std::size_t k = count; k-- > 0;)
        found[k] = (k > 0 ? found[k - 1] : 0) - interpolation_points<m>[i] * found[k];
    }
    return found;
  }

  static constexpr auto input = [] {
    SmallMatrix<count, count> found{};
    for (std::size_t i = 0; i < count; ++i) {
      const auto row = product_without(i);
      for (std::size_t k = 0; k < count; ++k) found.at[i][k] = static_cast<float>(row[k]);
    }
    return found;
  }();

  /// The powers of the points, one row per point; infinity has only the highest power. If asked for, each row is
  /// divided by the product of its point's distances.
  template <std::size_t columns>
  static constexpr SmallMatrix<count, columns> powers(bool divided) {
    SmallMatrix<count, columns> found{};
    for (std::size_t i = 0; i < finite; ++i) {
      double power = 1, distances = 1;
      for (std::size_t k = 0; k < finite; ++k)
        distances *= k == i ? 1 : interpolation_points<m>[i] - interpolation_points<m>[k];
      for (std::size_t k = 0; k < columns; ++k, power *= interpolation_points<m>[i]) {
        found.at[i][k] = static_cast<float>(divided ? power / distances : power);
      }
    }
    found.at[finite][columns - 1] = 1;
    return found;
  }

  static constexpr auto weight = powers<3>(true);
  static constexpr auto result_back = powers<m>(false);
  static constexpr auto input_back = input.transposed();
  static constexpr auto weight_back = weight.transposed();
  static constexpr auto result = result_back.transposed();
};

/// sum + matrix(i, j) * value
template <const auto& matrix, std::size_t i, std::size_t j>
HWY_INLINE V add_product(V sum, V value) {
  constexpr float factor = matrix.at[i][j];
  if constexpr (factor == 0) return sum;
  if constexpr (factor == 1) return hn::Add(sum, value);
  if constexpr (factor == -1) return hn::Sub(sum, value);
  return hn::MulAdd(hn::Set(f32, factor), value, sum);
}

template <const auto& matrix, std::size_t i, class Load, std::size_t... j>
HWY_INLINE V row_times(Load load, std::index_sequence<j...>) {
  V sum = hn::Zero(f32);
  ((sum = add_product<matrix, i, j>(sum, load(j))), ...);
  return sum;
}

/// store(i, row i of matrix * the vector whose entry j is load(j)), for all i.
template <const auto& matrix, class Load, class Store, std::size_t... i>
HWY_INLINE void times(Load load, Store store, std::index_sequence<i...>) {
  (store(i, row_times<matrix, i>(load, std::make_index_sequence<std::decay_t<decltype(matrix)>::columns>())), ...);
}

/// matrix * tile * matrix', for one vector of channels; load(i, j), store(i, j, value).
template <const auto& matrix, class Load, class Store>
HWY_INLINE void transform(Load load, Store store) {
  using M = std::decay_t<decltype(matrix)>;
  constexpr std::size_t most = HWY_MAX_BYTES / sizeof(float);
  HWY_ALIGN float half[M::rows * M::columns * most];
  const std::size_t lanes = hn::Lanes(f32);
  const auto rows = std::make_index_sequence<M::rows>();
  for (std::size_t j = 0; j < M::columns; ++j) {
    times<matrix>([&](std::size_t k) HWY_ATTR { return load(k, j); },
                  [&](std::size_t i, V value) HWY_ATTR { hn::Store(value, f32, half + (i * M::columns + j) * lanes); },
                  rows);
  }
  for (std::size_t i = 0; i < M::rows; ++i) {
    times<matrix>([&](std::size_t k) HWY_ATTR { return hn::Load(f32, half + (i * M::columns + k) * lanes); },
                  [&](std::size_t j, V value) HWY_ATTR { store(i, j, value); }, rows);
  }
}

/// Calls body(tile, pixels) for each tile of an image; pixels holds the address of each of its side x side pixels, or
/// `outside`.
template <std::size_t side, class T, class Body>
HWY_INLINE void over_tiles(T* image, std::size_t n, const Tiling& tiling, T* outside, Body body) {
  const std::size_t height = tiling.images.height, width = tiling.images.width;
  T* pixels[side * side];
  std::size_t tile = n * tiling.rows * tiling.columns;
  for (std::size_t r = 0; r < tiling.rows; ++r) {
    for (std::size_t c = 0; c < tiling.columns; ++c, ++tile) {
      const std::ptrdiff_t top = tiling.first + static_cast<std::ptrdiff_t>(r * tiling.step);
      const std::ptrdiff_t left = tiling.first + static_cast<std::ptrdiff_t>(c * tiling.step);
      for (std::size_t i = 0; i < side; ++i) {
        for (std::size_t j = 0; j < side; ++j) {
          const auto y = static_cast<std::size_t>(top + static_cast<std::ptrdiff_t>(i)),
                     x = static_cast<std::size_t>(left + static_cast<std::ptrdiff_t>(j));
          pixels[i * side + j] = y < height && x < width ? image + (y * width + x) * tiling.pitch : outside;
        }
      }
      body(tile, pixels);
    }
  }
}

struct LoadAll {
  template <class T>
  HWY_INLINE V operator()(const T* from) const {
    return load(from);
  }
};
struct StoreAll {
  template <class T>
  HWY_INLINE void operator()(T* to, V value) const {
    store(to, value);
  }
};
/// The first lanes of a vector; the others are 0.
struct LoadSome {
  std::size_t count;
  template <class T>
  HWY_INLINE V operator()(const T* from) const {
    return load_some(from, count);
  }
};
struct StoreSome {
  std::size_t count;
  template <class T>
  HWY_INLINE void operator()(T* to, V value) const {
    store_some(to, value, count);
  }
};

/// Calls body(c, load, store) for every vector of channels; load(from) and store(to, value) touch only existing
/// channels.
template <class Body>
HWY_INLINE void over_channels(std::size_t channels, Body body) {
  const std::size_t lanes = hn::Lanes(f32);
  std::size_t c = 0;
  for (; c + lanes <= channels; c += lanes) body(c, LoadAll(), StoreAll());
  if (c == channels) return;
  body(c, LoadSome{channels - c}, StoreSome{channels - c});
}

HWY_INLINE std::size_t pixels_of(const Tiling& tiling) { return tiling.images.height * tiling.images.width; }

template <const auto& matrix, class T>
HWY_INLINE void tiles_to_points(WinogradPoints points, const T* images, const Tiling& tiling, std::size_t begin,
                                std::size_t end) {
  using M = std::decay_t<decltype(matrix)>;
  const std::size_t channels = tiling.images.channels, size = pixels_of(tiling) * tiling.pitch;
  const std::vector<T> outside(channels);
  for (std::size_t n = begin; n < end; ++n) {
    over_tiles<M::columns>(images + n * size, n, tiling, outside.data(),
                           [&](std::size_t tile, const T* const* pixels) HWY_ATTR {
                             over_channels(channels, [&](std::size_t c, auto load, auto store) HWY_ATTR {
                               float* const to = points.data + tile * channels + c;
                               transform<matrix>([&](std::size_t i, std::size_t j)
                                                     HWY_ATTR { return load(pixels[i * M::columns + j] + c); },
                                                 [&](std::size_t i, std::size_t j, V value)
                                                     HWY_ATTR { store(to + (i * M::rows + j) * points.pitch, value); });
                             });
                           });
  }
}

/// Transforms image n back. `overlap`: adds to the pixels' numbers instead of replacing them. `outside` takes numbers
/// outside the image.
template <const auto& matrix, bool overlap, class T>
HWY_INLINE void points_to_tiles(T* image, std::size_t n, WinogradPoints points, const Tiling& tiling, const float* bias,
                                T* outside) {
  using M = std::decay_t<decltype(matrix)>;
  const std::size_t channels = tiling.images.channels;
  for (std::size_t pixel = 0; overlap && pixel < pixels_of(tiling); ++pixel)
    std::memset(image + pixel * tiling.pitch, 0, channels * sizeof(T));
  over_tiles<M::rows>(image, n, tiling, outside, [&](std::size_t tile, T* const* pixels) HWY_ATTR {
    over_channels(channels, [&](std::size_t c, auto load, auto store) HWY_ATTR {
      const float* const from = points.data + tile * channels + c;
      const V more = load(bias + c);
      transform<matrix>([&](std::size_t i, std::size_t j)
                            HWY_ATTR { return load(from + (i * M::columns + j) * points.pitch); },
                        [&](std::size_t i, std::size_t j, V value) HWY_ATTR {
                          T* const to = pixels[i * M::rows + j] + c;
                          store(to, hn::Add(value, overlap ? load(to) : more));
                        });
    });
  });
}

template <const auto& matrix, bool overlap, class T>
HWY_INLINE void points_to_images(T* images, WinogradPoints points, const Tiling& tiling, const float* bias,
                                 std::size_t begin, std::size_t end) {
  const std::size_t channels = tiling.images.channels, size = pixels_of(tiling) * tiling.pitch;
  const std::vector<float> none(bias ? 0 : channels);
  if (!bias) bias = none.data();
  if constexpr (overlap && sizeof(T) < sizeof(float)) {  // sums are fp32 until they are complete
    std::vector<float> image(pixels_of(tiling) * channels), outside(channels);
    Tiling apart = tiling;
    apart.pitch = channels;
    for (std::size_t n = begin; n < end; ++n) {
      points_to_tiles<matrix, overlap>(image.data(), n, points, apart, bias, outside.data());
      for (std::size_t pixel = 0; pixel < pixels_of(tiling); ++pixel) {
        over_channels(channels, [&](std::size_t c, auto load, auto store) HWY_ATTR {
          store(images + n * size + pixel * tiling.pitch + c, load(image.data() + pixel * channels + c));
        });
      }
    }
  } else {
    std::vector<T> outside(channels);
    for (std::size_t n = begin; n < end; ++n)
      points_to_tiles<matrix, overlap>(images + n * size, n, points, tiling, bias, outside.data());
  }
}

template <std::size_t m, class T>
HWY_INLINE void to(WinogradPoints points, const T* images, const Tiling& tiling, WinogradMap map, std::size_t begin,
                   std::size_t end) {
  switch (map) {
    case WinogradMap::input:
      return tiles_to_points<Matrices<m>::input>(points, images, tiling, begin, end);
    case WinogradMap::weight:
      return tiles_to_points<Matrices<m>::weight>(points, images, tiling, begin, end);
    case WinogradMap::result:
      return tiles_to_points<Matrices<m>::result_back>(points, images, tiling, begin, end);
  }
}

template <std::size_t m, class T>
HWY_INLINE void from(T* images, WinogradPoints points, const Tiling& tiling, WinogradMap map, const float* bias,
                     std::size_t begin, std::size_t end) {
  switch (map) {
    case WinogradMap::input:
      return points_to_images<Matrices<m>::input_back, true>(images, points, tiling, bias, begin, end);
    case WinogradMap::weight:
      return points_to_images<Matrices<m>::weight_back, false>(images, points, tiling, bias, begin, end);
    case WinogradMap::result:
      return points_to_images<Matrices<m>::result, false>(images, points, tiling, bias, begin, end);
  }
}

void ToPointsFp32(WinogradPoints points, const float* images, const Tiling& tiling, WinogradTile m, WinogradMap map,
                  std::size_t begin, std::size_t end) {
  m == WinogradTile::two ? to<2>(points, images, tiling, map, begin, end)
                         : to<4>(points, images, tiling, map, begin, end);
}
void ToPointsBf16(WinogradPoints points, const std::uint16_t* images, const Tiling& tiling, WinogradTile m,
                  WinogradMap map, std::size_t begin, std::size_t end) {
  m == WinogradTile::two ? to<2>(points, images, tiling, map, begin, end)
                         : to<4>(points, images, tiling, map, begin, end);
}
void FromPointsFp32(float* images, WinogradPoints points, const Tiling& tiling, WinogradTile m, WinogradMap map,
                    const float* bias, std::size_t begin, std::size_t end) {
  m == WinogradTile::two ? from<2>(images, points, tiling, map, bias, begin, end)
                         : from<4>(images, points, tiling, map, bias, begin, end);
}
void FromPointsBf16(std::uint16_t* images, WinogradPoints points, const Tiling& tiling, WinogradTile m, WinogradMap map,
                    const float* bias, std::size_t begin, std::size_t end) {
  m == WinogradTile::two ? from<2>(images, points, tiling, map, bias, begin, end)
                         : from<4>(images, points, tiling, map, bias, begin, end);
}

}  // namespace ripieno::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ripieno::kernels {

HWY_EXPORT(ToPointsFp32);
HWY_EXPORT(ToPointsBf16);
HWY_EXPORT(FromPointsFp32);
HWY_EXPORT(FromPointsBf16);

void to_points(WinogradPoints points, const float* images, const Tiling& tiling, WinogradTile m, WinogradMap map,
               std::size_t begin, std::size_t end) {
  HWY_DYNAMIC_DISPATCH(ToPointsFp32)(points, images, tiling, m, map, begin, end);
}
void to_points(WinogradPoints points, const std::uint16_t* images, const Tiling& tiling, WinogradTile m,
               WinogradMap map, std::size_t begin, std::size_t end) {
  HWY_DYNAMIC_DISPATCH(ToPointsBf16)(points, images, tiling, m, map, begin, end);
}

void from_points(float* images, WinogradPoints points, const Tiling& tiling, WinogradTile m, WinogradMap map,
                 const float* bias, std::size_t begin, std::size_t end) {
  HWY_DYNAMIC_DISPATCH(FromPointsFp32)(images, points, tiling, m, map, bias, begin, end);
}
void from_points(std::uint16_t* images, WinogradPoints points, const Tiling& tiling, WinogradTile m, WinogradMap map,
                 const float* bias, std::size_t begin, std::size_t end) {
  HWY_DYNAMIC_DISPATCH(FromPointsBf16)(images, points, tiling, m, map, bias, begin, end);
}

}  // namespace ripieno::kernels
#endif  // HWY_ONCE
