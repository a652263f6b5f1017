// TOML helpers of settings.cpp and recipe.cpp: parsing with one-line errors, the leaves of a table in file order, and
// conversion of a node to a Value.
#pragma once

#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ripieno/bytes.h"
#include "apps/ripieno/settings.h"

namespace ripieno::program {

/// Throws Error(usage) with `name`, line and column.
inline toml::table parse_toml(std::string_view content, const std::string& name) {
  try {
    return toml::parse(content, name);
  } catch (const toml::parse_error& error) {
    std::string what(error.description());
    std::replace(what.begin(), what.end(), '\n', ' ');
    fail(ErrorKind::usage, name, ":", error.source().begin.line, ":", error.source().begin.column, ": ", what);
  }
}

/// A key with its tables, "a.b", and its node: a value, an array, or a table without keys.
struct Leaf {
  std::string key;
  const toml::node* node;
  Origin origin;
};

/// In file order (toml++ sorts them by name).
inline std::vector<Leaf> leaves(const toml::table& table, const std::string& name, const std::string& prefix = "") {
  std::vector<Leaf> found;
  for (auto&& [key, node] : table) {
    const std::string full = prefix + std::string(key.str());
    const toml::table* inner = node.as_table();
    if (inner && !inner->empty()) {
      for (Leaf& leaf : leaves(*inner, name, full + ".")) found.push_back(std::move(leaf));
    } else {
      found.push_back({full, &node, {name, key.source().begin.line, key.source().begin.column}});
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Leaf& a, const Leaf& b) {
    return std::pair(a.origin.line, a.origin.column) < std::pair(b.origin.line, b.origin.column);
  });
  return found;
}

/// nullopt for nodes that no setting can have: tables, dates, arrays of anything but numbers.
inline std::optional<Value> to_value(const toml::node& node) {
  if (auto* v = node.as_boolean()) return Value(v->get());
  if (auto* v = node.as_integer()) return Value(v->get());
  if (auto* v = node.as_floating_point()) return Value(v->get());
  if (auto* v = node.as_string()) return Value(bytes_of(v->get()));
  const toml::array* array = node.as_array();
  if (!array) return std::nullopt;
  std::vector<double> numbers;
  for (const toml::node& one : *array) {
    if (!one.is_number()) return std::nullopt;
    numbers.push_back(*one.value<double>());
  }
  return Value(numbers);
}

/// "a table", "an array", "a date".
inline std::string describe(const toml::node& node) {
  if (node.is_table()) return "a table";
  if (node.is_array()) return "an array of other things";
  return "a date or time";
}

/// The key's entry in all_settings(). Throws Error(usage), with the nearest known key, for an unknown one.
const Setting& known_setting(std::string_view key, const Origin& origin);

/// Throws Error(usage) unless the value is of the setting's type, in its range and allowed; returns it in that type.
Value checked(const Setting& setting, Value value, const Origin& origin);

/// The same for a node.
Value checked(const Setting& setting, const toml::node& node, const Origin& origin);

}  // namespace ripieno::program
