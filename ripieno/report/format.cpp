#include "ripieno/report/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "ripieno/core/error.h"

namespace ripieno::report {
namespace {

/// Three significant figures for 0 <= value < 1000, but at least the integer part.
std::string three_figures(double value) {
  // By the rounded value, so that 9.999 is "10.0" and not "10.00".
  return format_fixed(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string hours_and_minutes(long long whole_seconds) {
  const long long minutes = whole_seconds / 60;
  if (minutes < 60) return std::to_string(minutes) + " min " + std::to_string(whole_seconds % 60) + " s";
  const long long rounded = (whole_seconds + 30) / 60;
  return std::to_string(rounded / 60) + " h " + std::to_string(rounded % 60) + " min";
}

}  // namespace

std::string percent_encoded(const std::string& path) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
        std::string_view("/-._~").find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += {'%', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return out;
}

std::string format_fixed(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const int length = std::snprintf(nullptr, 0, "%.*f", digits, value);
  std::string out(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(out.data(), out.size(), "%.*f", digits, value);
  out.pop_back();
  return out;
}

std::string format_figures(double value, int figures) {
  if (!std::isfinite(value)) return format_fixed(value, 0);
  const double size = std::abs(value);
  if (size >= 1000 || value == 0) return format_count(value);
  return format_fixed(value, std::clamp(figures - 1 - static_cast<int>(std::floor(std::log10(size))), 0, 6));
}

std::string format_short(double value) {
  std::string digits = format_fixed(value, 2);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.ends_with('.')) digits.pop_back();
  return digits;
}

std::string format_bytes(double bytes) {
  if (!std::isfinite(bytes)) return format_fixed(bytes, 0) + " B";
  if (bytes < 0) return text("-", format_bytes(-bytes));
  if (bytes < 999.5) return format_fixed(bytes, 0) + " B";
  constexpr std::array units{"kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  double scaled = bytes / 1000;
  while (scaled >= 999.5 && unit + 1 < units.size()) {
    scaled /= 1000;
    ++unit;
  }
  return three_figures(scaled) + " " + units[unit];
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return format_fixed(seconds, 0) + " s";
  if (seconds < 0) return text("-", format_seconds(-seconds));
  if (seconds == 0) return "0 s";
  if (seconds < 0.9995e-6) return three_figures(seconds * 1e9) + " ns";
  if (seconds < 0.9995e-3) return three_figures(seconds * 1e6) + " µs";
  if (seconds < 0.9995) return three_figures(seconds * 1e3) + " ms";
  if (seconds < 119.5) return three_figures(seconds) + " s";
  if (seconds > 1e15) return format_fixed(seconds, 0) + " s";
  return hours_and_minutes(std::llround(seconds));
}

std::string format_count(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string format_count(double count) {
  if (!(std::abs(count) < 9e18)) return format_fixed(count, 0);
  return format_count(static_cast<std::int64_t>(std::llround(count)));
}

std::string format_percent(double fraction, int digits) { return format_fixed(fraction * 100, digits) + " %"; }

}  // namespace ripieno::report
