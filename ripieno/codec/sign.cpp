#include "ripieno/codec/sign.h"

#include <cmath>

#include "ripieno/codec/block_codec.h"

namespace ripieno::codec {
namespace {

struct Sign {
  static constexpr const char* name = "sign";

  std::size_t bytes(std::size_t m) const { return (m + 7) / 8; }

  template <class T>
  float encode(const T* x, std::size_t m, Random&, std::byte* codes) const {
    double sums[8] = {};  // parallel sums, so that they vectorise
    std::size_t i = 0;
    for (; i + 8 <= m; i += 8) {
      for (int j = 0; j < 8; ++j) sums[j] += std::abs(x[i + j]);
      codes[i / 8] = signs(x + i);
    }
    if (i < m) {
      T last[8] = {};
      std::copy(x + i, x + m, last);
      for (int j = 0; j < 8; ++j) sums[j] += std::abs(last[j]);
      codes[i / 8] = signs(last);
    }
    double sum = 0;
    for (const double part : sums) sum += part;
    const auto scale = static_cast<float>(sum / static_cast<double>(m));
    return std::isnan(scale) ? no_scale : scale;
  }

  template <bool adds, class T>
  void decode(float scale, const std::byte* codes, T* y, std::size_t m) const {
    const T values[2] = {T(scale), -T(scale)};
    std::size_t i = 0;
    for (; i + 8 <= m; i += 8) {
      const auto byte = static_cast<unsigned>(codes[i / 8]);
      for (int j = 0; j < 8; ++j) put<adds>(y[i + j], values[byte >> j & 1]);
    }
    for (; i < m; ++i) put<adds>(y[i], values[static_cast<unsigned>(codes[i / 8]) >> i % 8 & 1]);
  }

 private:
  template <class T>
  static std::byte signs(const T* x) {
    unsigned byte = 0;
    for (int j = 0; j < 8; ++j) byte |= static_cast<unsigned>(std::signbit(x[j])) << j;
    return static_cast<std::byte>(byte);
  }
};

}  // namespace

std::unique_ptr<Codec> make_sign(std::size_t block) { return std::make_unique<BlockCodec<Sign>>(block, Sign{}); }

}  // namespace ripieno::codec
