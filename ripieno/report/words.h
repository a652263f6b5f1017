// Numbers in sentences, and pieces of sentences; internal to report/.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ripieno/core/error.h"
#include "ripieno/report/format.h"
#include "ripieno/report/statements.h"

namespace ripieno::report {

/// Of a ratio from 1.1 on.
inline std::string ratio_in_words(double ratio) { return format_fixed(ratio, ratio < 9.95 ? 1 : 0); }
/// In a table: 0.95, 2.10, 33.1, 120.
inline std::string times_shown(double ratio) { return format_fixed(ratio, ratio < 9.95 ? 2 : ratio < 99.5 ? 1 : 0); }
/// Of any ratio: 0.95, 1.04, 2.1, 33.
inline std::string times_in_words(double ratio) { return ratio < 1.1 ? format_fixed(ratio, 2) : ratio_in_words(ratio); }

inline std::string percent(double value) { return format_fixed(value, 1); }

/// The fewest digits after the point, at least one, with which the number is not shown as 0; 4 at most.
inline int decimals_of(double value) {
  int digits = 1;
  while (digits < 4 && std::abs(value) < 0.5 * std::pow(10, -digits)) ++digits;
  return digits;
}
/// "4", "0.3", "0.02": a per cent that is above 0 is not shown as 0, unless it is below 0.00005.
inline std::string small_percent(double value) { return format_fixed(value, value >= 0.95 ? 0 : decimals_of(value)); }

/// The fewest digits after the point, at least one, with which the numbers are shown as different; -1 if four do not.
inline int digits_apart(double a, double b) {
  for (int digits = 1; digits <= 4; ++digits) {
    if (format_fixed(a, digits) != format_fixed(b, digits)) return digits;
  }
  return -1;
}

/// "one", .., "twelve", "13".
inline std::string number_in_words(std::size_t number) {
  constexpr const char* words[] = {"no",    "one",   "two",  "three", "four",   "five",  "six",
                                   "seven", "eight", "nine", "ten",   "eleven", "twelve"};
  return number < std::size(words) ? words[number] : std::to_string(number);
}

/// Builds a sentence's pieces.
class Words {
 public:
  Words& say(const std::string& words) {
    pieces_.push_back({words});
    return *this;
  }
  Words& way(const std::string& name) {
    pieces_.push_back({name, {}, true});
    return *this;
  }
  Words& number(const std::string& shown, const Source& source) {
    pieces_.push_back({shown, source});
    return *this;
  }
  /// "a", "a and b", "a, b, c and three more".
  Words& names(const std::vector<std::string>& ways) {
    const std::size_t listed = ways.size() > most_names ? most_names - 1 : ways.size();
    for (std::size_t i = 0; i < listed; ++i) {
      if (i > 0) say(i + 1 == ways.size() ? " and " : ", ");
      way(ways[i]);
    }
    if (listed < ways.size()) say(text(" and ", number_in_words(ways.size() - listed), " more"));
    return *this;
  }
  std::vector<Piece> end() {
    say(".");
    return std::move(pieces_);
  }

 private:
  static constexpr std::size_t most_names = 4;  // listed at most

  std::vector<Piece> pieces_;
};

}  // namespace ripieno::report
