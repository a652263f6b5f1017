// Lines for people that repeat what a user has given, however long that is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ripieno::program {

/// The line with every word of more than 200 bytes, and every such quotation between '"' or "'", cut to its first 80
/// bytes: "aaaa… (5000 bytes)". Likewise what is `given`, and the value of a given KEY=VALUE, with spaces or not.
std::string without_long_words(std::string_view line, const std::vector<std::string>& given = {});

}  // namespace ripieno::program
