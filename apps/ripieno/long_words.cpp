#include "apps/ripieno/long_words.h"

#include <algorithm>

#include "ripieno/core/error.h"

namespace ripieno::program {
namespace {

constexpr std::size_t longest = 200, kept = 80;  // bytes of a word

/// The first `most` bytes, or a few less so that no character of UTF-8 is cut.
std::string_view cut(std::string_view word, std::size_t most) {
  while (most > 0 && (static_cast<unsigned char>(word[most]) & 0xC0) == 0x80) --most;
  return word.substr(0, most);
}

std::string shortened(std::string_view word) { return text(cut(word, kept), "… (", word.size(), " bytes)"); }

/// The end of the space, of what is between quotation marks, or of the word at the beginning of `rest`.
std::size_t end_of_part(std::string_view rest) {
  if (rest[0] == ' ' || rest[0] == '\n') return 1;
  if (rest[0] == '"' || rest[0] == '\'') {
    const std::size_t closing = rest.find(rest[0], 1);
    if (closing != rest.npos) return closing + 1;
  }
  return std::min(rest.find_first_of(" \n", 1), rest.size());
}

}  // namespace

std::string without_long_words(std::string_view said, const std::vector<std::string>& given) {
  std::string whole(said);
  for (const std::string& argument : given) {
    for (const std::string& one : {argument, argument.substr(argument.find('=') + 1)}) {
      if (one.size() <= longest) continue;
      for (std::size_t at; (at = whole.find(one)) != whole.npos;) whole.replace(at, one.size(), shortened(one));
    }
  }
  std::string_view line = whole;
  std::string all;
  while (!line.empty()) {
    const std::string_view part = line.substr(0, end_of_part(line));
    all += part.size() <= longest ? std::string(part) : shortened(part);
    line.remove_prefix(part.size());
  }
  return all;
}

}  // namespace ripieno::program
