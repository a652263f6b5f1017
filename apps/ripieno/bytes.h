// Text that is kept (in TOML, in JSON) is UTF-8; the paths of files may be any bytes. A byte that is part of no UTF-8
// is carried as a character of Unicode's private use, U+10FE80 .. U+10FEFF, and comes back as it was.
#pragma once

#include <string>
#include <string_view>

namespace ripieno::program {

bool is_utf8(std::string_view bytes);

/// Valid UTF-8 whatever the bytes: the same ones where they are it already.
std::string text_of(std::string_view bytes);

/// The bytes that text_of() made it from.
std::string bytes_of(std::string_view text);

}  // namespace ripieno::program
