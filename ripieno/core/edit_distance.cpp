#include "ripieno/core/edit_distance.h"

#include <algorithm>
#include <vector>

#include "ripieno/core/guessed_words.h"

namespace ripieno {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string_view likely_name(const std::vector<std::string_view>& known, std::string_view name) {
  if (const GuessedWord* guess = guessed(name, known)) return guess->meant;
  std::string_view nearest;
  std::size_t distance = std::min<std::size_t>(4, name.size() / 2 + 1);
  for (const std::string_view one : known) {
    if (const std::size_t d = edit_distance(name, one); d < distance) {
      distance = d;
      nearest = one;
    }
  }
  return nearest;
}

void fail_unknown(const std::vector<std::string_view>& known, std::string_view name, std::string_view what) {
  std::string all;
  for (const std::string_view one : known) all += text(all.empty() ? "" : ", ", one);
  const std::string_view nearest = likely_name(known, name);
  fail(ErrorKind::usage, "there is no ", what, " \"", name, "\"",
       nearest.empty() ? "" : text(" (did you mean \"", nearest, "\"?)"), "; known are ", all);
}

}  // namespace ripieno
