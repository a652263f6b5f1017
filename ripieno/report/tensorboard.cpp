#include "ripieno/report/tensorboard.h"

#include <array>
#include <cmath>
#include <cstring>

namespace ripieno {
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

/// So that a checksum of data with checksums in it stays one.
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

/// Protocol buffers: a field is its number and wire type, then its value.
enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out += static_cast<char>(value);
}

std::string field(int number, Wire wire) { return varint(static_cast<std::uint64_t>(number) << 3 | static_cast<std::uint64_t>(wire)); }
std::string field(int number, const std::string& bytes) { return field(number, Wire::bytes) + varint(bytes.size()) + bytes; }
std::string field(int number, double value) { return field(number, Wire::fixed64) + bytes_of(value); }
std::string field(int number, float value) { return field(number, Wire::fixed32) + bytes_of(value); }
std::string field(int number, std::uint64_t value) { return field(number, Wire::varint) + varint(value); }

using Scalars = std::vector<std::pair<std::string, double>>;

/// Event{wall_time = 1, step = 2, summary = 5{value = 1{tag = 1, simple_value = 2}}}
std::string event(double wall_time, std::uint64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    if (std::isfinite(value)) summary += field(1, field(1, tag) + field(2, static_cast<float>(value)));
  }
  return record(field(1, wall_time) + field(2, step) + field(5, summary));
}

}  // namespace

std::string tensorboard_events(const Metrics& metrics) {
  const double start = metrics.start ? metrics.start->unix_time : 0;
  std::string out = record(field(1, start) + field(3, std::string("brain.Event:2")));
  auto epoch = metrics.epochs.begin();
  auto sample = metrics.samples.begin();
  std::uint64_t at = 0;
  const auto others_until = [&](std::size_t line) {  // in the order of the file
    while (true) {
      const bool is_epoch = epoch != metrics.epochs.end() && epoch->line < line;
      const bool is_sample = sample != metrics.samples.end() && sample->line < line;
      if (is_epoch && (!is_sample || epoch->line < sample->line)) {
        if (epoch->test) out += event(start + epoch->time, at, {{"test/accuracy", epoch->test->accuracy}, {"test/loss", epoch->test->loss}});
        ++epoch;
      } else if (is_sample) {
        const double span = std::max(1e-9, sample->seconds);
        out += event(start + sample->time, at,
                     {{"cpu/user", sample->cpu_user / span}, {"cpu/system", sample->cpu_system / span}, {"memory/resident", sample->resident},
                      {"network/sent_bytes_per_s", sample->bytes_sent / span}, {"network/received_bytes_per_s", sample->bytes_received / span}});
        ++sample;
      } else {
        return;
      }
    }
  };
  for (const StepLine& step : metrics.steps) {
    others_until(step.line);
    at = step.step;
    const StageSeconds& s = step.seconds;
    out += event(start + step.time, at,
                 {{"train/loss", step.loss}, {"train/samples", step.samples}, {"seconds/read", s.read}, {"seconds/forward", s.forward},
                  {"seconds/backward", s.backward}, {"seconds/exchange", s.exchange}, {"seconds/optimise", s.optimise},
                  {"seconds/exchange_hidden", s.exchange_hidden}, {"bytes/payload_sent", static_cast<double>(step.bytes.payload_sent)}});
  }
  others_until(SIZE_MAX);
  return out;
}

}  // namespace ripieno
