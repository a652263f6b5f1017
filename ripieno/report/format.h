// Numbers for people, to three figures. SI units: 1 kB = 10^3 bytes, 1 MB = 10^6 bytes. Numbers that are not finite are
// printed as "nan" or "inf" without a unit's prefix.
#pragma once

#include <cstdint>
#include <string>

namespace ripieno::report {

/// A path for use in a link: bytes with a meaning there ("#", "%", "?", ":", spaces, non-ASCII bytes) become %XX.
std::string percent_encoded(const std::string& path);

/// With so many digits after the point: 0.1 -> "0.100".
std::string format_fixed(double value, int digits);

/// To `figures` significant figures: 0.001234 -> "0.001234", 12.3456 -> "12.35", 1234567 -> "1,234,567"; "nan", "inf"
/// or "-inf" for numbers that are not finite.
std::string format_figures(double value, int figures = 4);
/// With two digits after the point at most, and no zeros at the end: "100", "2.5".
std::string format_short(double value);

/// 999 -> "999 B", 1379000 -> "1.38 MB", 12.5e9 -> "12.5 GB". Negative numbers too.
std::string format_bytes(double bytes);

/// 4.5e-5 -> "45.0 µs", 0.85 -> "850 ms", 12.34 -> "12.3 s", 200 -> "3 min 20 s", 7500 -> "2 h 5 min".
std::string format_seconds(double seconds);

/// 1234567 -> "1,234,567".
std::string format_count(std::int64_t count);
/// Rounded to an integer, halves away from zero.
std::string format_count(double count);

/// A fraction in per cent: 0.9812 -> "98.1 %" with one digit.
std::string format_percent(double fraction, int digits = 1);

}  // namespace ripieno::report
