#include "ripieno/report/event_file.h"

#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

namespace ripieno::report::event_file {
namespace {

/// Castagnoli's polynomial, as RFC 3720 has it.
std::uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      made[i] = i;
      for (int bit = 0; bit < 8; ++bit) made[i] = made[i] & 1 ? made[i] >> 1 ^ 0x82f63b78u : made[i] >> 1;
    }
    return made;
  }();
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ crc >> 8;
  return ~crc;
}

/// Masks a checksum, since checksums of data that contains checksums are weak.
std::uint32_t masked(std::uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

template <class Number>
std::string bytes_of(Number number) {  // little-endian, as the machines that Ripieno runs on
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

std::string record(const std::string& data) {
  const std::string length = bytes_of(std::uint64_t{data.size()});
  return length + bytes_of(masked(crc32c(length))) + data + bytes_of(masked(crc32c(data)));
}

enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out += static_cast<char>(value);
}

std::string begin_field(int number, Wire wire) {
  return varint(static_cast<std::uint64_t>(number) << 3 | static_cast<std::uint64_t>(wire));
}

}  // namespace

std::string field(int number, const std::string& bytes) {
  return begin_field(number, Wire::bytes) + varint(bytes.size()) + bytes;
}
std::string field(int number, double value) { return begin_field(number, Wire::fixed64) + bytes_of(value); }
std::string field(int number, float value) { return begin_field(number, Wire::fixed32) + bytes_of(value); }
std::string field(int number, std::uint64_t value) { return begin_field(number, Wire::varint) + varint(value); }

std::string beginning(double wall_time) { return record(field(1, wall_time) + field(3, std::string("brain.Event:2"))); }

std::string scalars(double wall_time, std::uint64_t step, const Scalars& values) {
  std::string summary;
  for (const auto& [tag, value] : values) {
    if (std::isfinite(value)) summary += field(1, field(1, tag) + field(2, static_cast<float>(value)));
  }
  return record(field(1, wall_time) + field(2, step) + field(5, summary));
}

std::string plugin_data(double wall_time, const std::string& tag, const std::string& plugin,
                        const std::string& content) {
  const std::string metadata = field(1, field(1, plugin) + field(2, content));
  return record(field(1, wall_time) + field(5, field(1, field(1, tag) + field(9, metadata))));
}

}  // namespace ripieno::report::event_file
