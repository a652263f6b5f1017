#include "ripieno/launch/shell.h"

#include <charconv>
#include <string_view>

#include "ripieno/core/error.h"

namespace ripieno::launch {
namespace {

constexpr std::string_view plain_everywhere = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
constexpr std::string_view plain_in_posix = "=,:+@%";  // these, too

}  // namespace

std::string shell_word(const std::string& word) {
  const auto is_plain = [](char c) {
    return plain_everywhere.find(c) != std::string_view::npos || plain_in_posix.find(c) != std::string_view::npos;
  };
  bool all_plain = !word.empty();
  for (const char c : word) all_plain = all_plain && is_plain(c);
  if (all_plain) return word;
  std::string all = "'";
  for (const char c : word) all += c == '\'' ? "'\\''" : std::string(1, c);
  return all + "'";
}

std::vector<std::string> words_of(const std::string& line, const std::string& what) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool is_blank = c == ' ' || c == '\t' || c == '\n';
    if (!quote && is_blank) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    const bool escapes = c == '\\' && quote != '\'' && i + 1 < line.size();
    if (escapes && (!quote || line[i + 1] == '"' || line[i + 1] == '\\')) {
      words.back() += line[++i];
    } else if (quote ? c == quote : c == '\'' || c == '"') {
      quote = quote ? 0 : c;
    } else {
      words.back() += c;
    }
  }
  if (quote) fail(ErrorKind::usage, what, " is ", line, ", in which ", quote, " is not closed");
  return words;
}

std::string with_percents(const std::string& word) {
  constexpr const char* digits = "0123456789ABCDEF";
  std::string plain;
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (plain_everywhere.find(c) != std::string_view::npos) {
      plain += c;
    } else {
      plain += {'%', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return plain;
}

std::string without_percents(const std::string& word) {
  std::string bytes;
  for (std::size_t i = 0; i < word.size(); ++i) {
    unsigned char byte = static_cast<unsigned char>(word[i]);
    if (word[i] == '%' && i + 2 < word.size()) {
      std::from_chars(word.data() + i + 1, word.data() + i + 3, byte, 16);
      i += 2;
    }
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace ripieno::launch
