#include "ripieno/transport/checksum.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "ripieno/core/random.h"

namespace ripieno::transport {
namespace {

std::uint32_t of(ConstBytes bytes) {
  Checksum checksum;
  checksum.add(bytes);
  return checksum.value();
}

/// By the definition, bit by bit.
std::uint32_t reference(ConstBytes bytes) {
  std::uint32_t crc = ~0u;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
  }
  return ~crc;
}

TEST(Checksum, IsCastagnolis) {  // RFC 3720, B.4
  EXPECT_EQ(of(std::as_bytes(std::span(std::string_view("123456789")))), 0xE3069283u);
  EXPECT_EQ(of(std::vector<std::byte>(32)), 0x8A9136AAu);
  EXPECT_EQ(of(std::vector<std::byte>(32, std::byte{0xFF})), 0x62A8AB43u);
  EXPECT_EQ(of({}), 0u);
}

TEST(Checksum, DoesNotDependOnPiecesAndPlaces) {
  Random random(1, 2);
  std::vector<std::byte> bytes(5000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  for (int i = 0; i < 300; ++i) {
    const std::size_t begin = random.next() % 70, size = random.next() % (bytes.size() - begin),
                      cut = random.next() % (size + 1);
    const ConstBytes all = ConstBytes(bytes).subspan(begin, size);
    Checksum in_pieces;
    in_pieces.add(all.first(cut));
    in_pieces.add(all.subspan(cut));
    EXPECT_EQ(of(all), reference(all));
    EXPECT_EQ(in_pieces.value(), of(all));
  }
}

}  // namespace
}  // namespace ripieno::transport
