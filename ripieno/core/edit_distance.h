// The distance of two words, and look-up of table rows by name: for "did you mean ..?".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "ripieno/core/error.h"

namespace ripieno {

/// The number of letters to change, insert, drop, or swap with their neighbour (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

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
/// `what`, names the nearest one if it may be a misspelling, and lists all.
template <class Table>
const auto& find_named(const Table& table, std::string_view name, std::string_view what) {
  std::string known, nearest;
  std::size_t distance = 4;  // a name further away than 3 edits is no misspelling
  for (const auto& row : table) {
    const std::string_view its = name_of(row);
    if (its == name) return row;
    known += text(known.empty() ? "" : ", ", its);
    if (const std::size_t d = edit_distance(name, its); d < distance) {
      distance = d;
      nearest = its;
    }
  }
  fail(ErrorKind::usage, "there is no ", what, " \"", name, "\"",
       nearest.empty() ? "" : text(" (did you mean \"", nearest, "\"?)"), "; known are ", known);
}

}  // namespace ripieno
