// Words that people and other programs use for what has another name here: the one table of them, for "did you mean
// ..?".
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace ripieno {

struct GuessedWord {
  std::string_view word;       ///< in lower case, without '-' and '_'
  std::string_view meant;      ///< a recipe's key, an option of the command line without its dashes, or a name
  std::string_view note = "";  ///< what else to know, such as another unit
};

std::span<const GuessedWord> guessed_words();

/// The row for `word`, however it is spelt, whose meaning is among the known words; null if there is none.
const GuessedWord* guessed(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace ripieno
