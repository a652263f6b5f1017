// Builds sentences; internal to report/.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ripieno/core/error.h"
#include "ripieno/report/format.h"
#include "ripieno/report/sentences.h"

namespace ripieno::report {

inline constexpr Tolerance time_tolerance{.relative = 0.03};

inline std::string ratio_in_words(double ratio) { return format_fixed(ratio, ratio < 9.95 ? 1 : 0); }

inline std::string percent(double value) { return format_fixed(value, 1); }

/// Builds a sentence.
class Words {
 public:
  explicit Words(std::string about) { sentence_.about = std::move(about); }
  Words& say(const std::string& words) {
    sentence_.pieces.push_back({words});
    return *this;
  }
  Words& way(const std::string& name) {
    sentence_.pieces.push_back({name, {}, true});
    return *this;
  }
  Words& number(const std::string& shown, const Source& source) {
    sentence_.pieces.push_back({shown, source});
    return *this;
  }
  /// "a", "a and b", "a, b and 3 more".
  Words& names(const std::vector<const Way*>& ways) {
    const std::size_t listed = ways.size() > most_names ? most_names - 1 : ways.size();
    for (std::size_t i = 0; i < listed; ++i) {
      if (i > 0) say(i + 1 == ways.size() ? " and " : ", ");
      way(ways[i]->name);
    }
    if (listed < ways.size()) say(text(" and ", ways.size() - listed, " more"));
    return *this;
  }
  Sentence end() {
    say(".");
    return std::move(sentence_);
  }

 private:
  static constexpr std::size_t most_names = 4;  // listed at most

  Sentence sentence_;
};

}  // namespace ripieno::report
