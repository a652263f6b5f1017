#include "ripieno/codec/qsgd.h"

#include <cmath>

#include "ripieno/codec/block_codec.h"

namespace ripieno::codec {
namespace {

constexpr std::size_t together = 8;  // the codes of so many numbers fill whole bytes, whatever their width
constexpr std::size_t piece = 256;   // so many codes are computed before they are packed
constexpr std::size_t lanes = 32;    // parallel sums, so that they vectorise and do not wait for each other

struct Qsgd {
  static constexpr const char* name = "qsgd";
  int bits;
  bool contraction;

  int levels() const { return (1 << (bits - 1)) - 1; }

  std::size_t bytes(std::size_t m) const { return (m * static_cast<std::size_t>(bits) + 7) / 8; }

  template <class T>
  float encode(const T* x, std::size_t m, Random& random, std::byte* to) const {
    // 1. M = max |x_i|, rounded up
    const float largest = largest_of(x, m);
    if (!(largest > 0)) {
      std::fill_n(to, bytes(m), std::byte{0});
      return largest;
    }
    Sums sums;
    for (std::size_t i = 0; i < m; i += piece) {
      const std::size_t n = std::min(piece, m - i);
      T r[piece] = {};
      float uniform[piece];
      std::uint8_t codes[piece] = {};
      draw(uniform, n, random);
      // 2. r_i and l_i, 3. with the sign above
      for (std::size_t j = 0; j < n; ++j) {
        r[j] = std::abs(x[i + j]) / T(largest) * T(levels());
        const int low = static_cast<int>(r[j]);
        const int level = std::min(low + (uniform[j] < r[j] - T(low) ? 1 : 0), levels());
        codes[j] = static_cast<std::uint8_t>(level | (x[i + j] < 0 ? 1 << (bits - 1) : 0));
      }
      pack(codes, n, to + i / 8 * static_cast<std::size_t>(bits));
      if (contraction) sums.add(r, n);
    }
    // 5. M / (1 + omega)
    return contraction ? static_cast<float>(largest / (1 + sums.omega())) : largest;
  }

  template <bool adds, class T>
  void decode(float scale, const std::byte* from, T* y, std::size_t m) const {
    // 4. D_i = M sign l_i / s
    T unit = static_cast<T>(static_cast<double>(scale) / levels());
    // rounded down, so that the largest level stays in fp32's range
    if (double{unit} * levels() > double{scale}) unit = std::nextafter(unit, T(0));
    const int most = levels();
    for (std::size_t i = 0; i < m; i += together) {
      const std::size_t n = std::min(together, m - i);
      std::uint64_t word = 0;
      const std::size_t at = i / 8 * static_cast<std::size_t>(bits), left = bytes(m) - at;
      if (left >= sizeof word) {
        std::memcpy(&word, from + at, sizeof word);  // a fixed size is fast; later codes in the word are ignored
      } else {
        std::memcpy(&word, from + at, left);
      }
      for (std::size_t j = 0; j < n; ++j) {
        const int code = static_cast<int>(word >> (j * static_cast<std::size_t>(bits)));
        const int level = code & most, negative = code >> (bits - 1) & 1;
        put<adds>(y[i + j], T((level ^ -negative) + negative) * unit);  // signs are random: no branch
      }
    }
  }

 private:
  /// Sums over a block, for its omega.
  struct Sums {
    double lost = 0, all = 0;  // sums of p (1 - p) and of r^2

    /// `r` is padded with zeros to a multiple of `lanes`.
    template <class T>
    void add(const T* r, std::size_t n) {
      T losts[lanes] = {}, alls[lanes] = {};
      for (std::size_t j = 0; j < n; j += lanes) {
        for (std::size_t k = 0; k < lanes; ++k) {
          const T p = r[j + k] - T(static_cast<int>(r[j + k]));
          losts[k] += p * (1 - p);
          alls[k] += r[j + k] * r[j + k];
        }
      }
      for (std::size_t k = 0; k < lanes; ++k) {
        lost += losts[k];
        all += alls[k];
      }
    }

    double omega() const { return lost / all; }
  };

  /// 0 if too small for a normal fp32.
  template <class T>
  static float largest_of(const T* x, std::size_t m) {
    SignedBits<T> most = 0;  // compared as bits: an integer maximum vectorises, and NaN is above all
    for (std::size_t i = 0; i < m; ++i) most = std::max(most, magnitude(x[i]));
    const T exact = std::bit_cast<T>(most);
    auto largest = static_cast<float>(exact);
    if (largest < exact) largest = std::nextafter(largest, std::numeric_limits<float>::infinity());
    if (!std::isfinite(largest)) return no_scale;
    return largest < std::numeric_limits<float>::min() ? 0.0f : largest;
  }

  /// Uniform numbers over [0, 1), multiples of 2^-24, two from each draw.
  static void draw(float* uniform, std::size_t n, Random& random) {
    for (std::size_t j = 0; j < n; j += 2) {
      const std::uint64_t draws = random.next();
      uniform[j] = static_cast<float>(draws >> 40) * 0x1p-24f;
      if (j + 1 < n) uniform[j + 1] = static_cast<float>(draws & 0xFFFFFF) * 0x1p-24f;
    }
  }

  /// Packs the codes' bits; `codes` is padded with zeros to a multiple of 8.
  void pack(const std::uint8_t* codes, std::size_t n, std::byte* to) const {
    for (std::size_t j = 0; j < n; j += together) {
      std::uint64_t word = 0;
      for (std::size_t k = 0; k < together; ++k) {
        word |= std::uint64_t{codes[j + k]} << (k * static_cast<std::size_t>(bits));
      }
      std::memcpy(to + j / 8 * static_cast<std::size_t>(bits), &word, bytes(std::min(together, n - j)));
    }
  }
};

}  // namespace

std::unique_ptr<Codec> make_qsgd(std::size_t block, int bits, bool contraction) {
  return std::make_unique<BlockCodec<Qsgd>>(block, Qsgd{bits, contraction});
}

}  // namespace ripieno::codec
