#include "apps/ripieno/bytes.h"

#include <cstddef>

namespace ripieno::program {
namespace {

unsigned at(std::string_view s, std::size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0; }

/// The length of the character that begins at `i`, in bytes; 0: none does. The ranges are those of Unicode's table 3-7.
std::size_t character_at(std::string_view s, std::size_t i) {
  const unsigned first = at(s, i), second = at(s, i + 1);
  const auto follows = [&](std::size_t j) { return at(s, j) >= 0x80 && at(s, j) <= 0xbf; };
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(i + 1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const unsigned low = first == 0xe0 ? 0xa0 : 0x80, high = first == 0xed ? 0x9f : 0xbf;
    return second >= low && second <= high && follows(i + 2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const unsigned low = first == 0xf0 ? 0x90 : 0x80, high = first == 0xf4 ? 0x8f : 0xbf;
    return second >= low && second <= high && follows(i + 2) && follows(i + 3) ? 4 : 0;
  }
  return 0;
}

/// U+10FE00 + byte is F4 8F and two bytes, of which the first has the byte's two highest bits.
constexpr std::string_view carrier = "\xf4\x8f";

bool carries(std::string_view s, std::size_t i) {
  return s.substr(i, 2) == carrier && at(s, i + 2) >= 0xba && at(s, i + 2) <= 0xbb && at(s, i + 3) >= 0x80;
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t length = character_at(bytes, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

std::string text_of(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size();) {
    if (const std::size_t length = character_at(bytes, i); length > 0) {
      text += bytes.substr(i, length);
      i += length;
    } else {
      text += carrier;
      text += static_cast<char>(0xb8 | (at(bytes, i) >> 6));
      text += static_cast<char>(0x80 | (at(bytes, i) & 0x3f));
      ++i;
    }
  }
  return text;
}

std::string bytes_of(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size();) {
    if (carries(text, i)) {
      bytes += static_cast<char>(((at(text, i + 2) & 3) << 6) | (at(text, i + 3) & 0x3f));
      i += 4;
    } else {
      bytes += text[i++];
    }
  }
  return bytes;
}

}  // namespace ripieno::program
