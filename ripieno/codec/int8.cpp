#include "ripieno/codec/int8.h"

#include <cmath>

#include "ripieno/codec/block_codec.h"

namespace ripieno::codec {
namespace {

/// x + round_to_integer<T> has the integer nearest to x in its lowest bits, in two's complement. The constant is 1.5
/// times the number above which T holds only integers.
template <class T>
constexpr T round_to_integer = sizeof(T) == 4 ? T(0x1.8p23) : T(0x1.8p52);

struct Int8 {
  static constexpr const char* name = "int8";

  std::size_t bytes(std::size_t m) const { return m; }

  template <class T>
  float encode(const T* x, std::size_t m, Random&, std::byte* codes) const {
    SignedBits<T> largest = 0;  // compared as bits: an integer maximum vectorises, and NaN is above all
    for (std::size_t i = 0; i < m; ++i) largest = std::max(largest, magnitude(x[i]));

    // 1. scale = max |x_i| / 127
    float scale = static_cast<float>(std::bit_cast<T>(largest) / 127);
    scale = std::bit_cast<float>(std::bit_cast<std::uint32_t>(scale) & ~0x7Fu);
    const bool finite = std::isfinite(scale);
    if (!finite || scale < std::numeric_limits<float>::min()) {
      std::fill_n(codes, m, std::byte{0});
      return finite ? 0.0f : no_scale;
    }

    // 2. q_i = x_i / scale, rounded
    for (std::size_t i = 0; i < m; ++i) {
      codes[i] = static_cast<std::byte>(std::bit_cast<SignedBits<T>>(x[i] / scale + round_to_integer<T>));
    }
    return scale;
  }

  template <bool adds, class T>
  void decode(float scale, const std::byte* codes, T* y, std::size_t m) const {
    // 3. D(q)_i = scale q_i
    for (std::size_t i = 0; i < m; ++i) put<adds>(y[i], static_cast<T>(static_cast<std::int8_t>(codes[i])) * T(scale));
  }
};

}  // namespace

std::unique_ptr<Codec> make_int8(std::size_t block) { return std::make_unique<BlockCodec<Int8>>(block, Int8{}); }

}  // namespace ripieno::codec
