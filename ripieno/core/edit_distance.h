// The distance of two words, and look-up of table rows by name: for "did you mean ..?".
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "ripieno/core/error.h"

namespace ripieno {

/// The number of letters to change, insert, drop, or swap with their neighbour (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known name that was probably meant: by another word for it (guessed_words.h), or misspelt, with at most 3 edits
/// and half of its letters. Empty: none.
std::string_view likely_name(const std::vector<std::string_view>& known, std::string_view name);

/// Throws find_named()'s error.
[[noreturn]] void fail_unknown(const std::vector<std::string_view>& known, std::string_view name,
                               std::string_view what);

/// The name of a table's row, or of an enumerator.
template <class Row>
std::string_view name_of(const Row& row) {
  if constexpr (requires { row.name; }) {
    return row.name;
  } else {
    return name(row);
  }
}

/// The row or enumerator of that name in a table. Otherwise throws Error(usage), which says that there is no such
/// `what`, names the one that was probably meant, and lists all.
template <class Table>
const auto& find_named(const Table& table, std::string_view name, std::string_view what) {
  for (const auto& row : table) {
    if (name_of(row) == name) return row;
  }
  std::vector<std::string_view> names;
  for (const auto& row : table) names.push_back(name_of(row));
  fail_unknown(names, name, what);
}

}  // namespace ripieno
