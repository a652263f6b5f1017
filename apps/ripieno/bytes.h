// Text in TOML and JSON is UTF-8, but file paths may be any bytes. A byte that is not part of valid UTF-8 is stored as
// a private-use character, U+10FE80 .. U+10FEFF, and converted back.
#pragma once

#include <string>
#include <string_view>

namespace ripieno::program {

bool is_utf8(std::string_view bytes);

/// Valid UTF-8 for any bytes; valid UTF-8 stays the same.
std::string text_of(std::string_view bytes);

/// The bytes that text_of() made it from.
std::string bytes_of(std::string_view text);

}  // namespace ripieno::program
