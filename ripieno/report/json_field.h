// A value in a JSON file that knows its place, so that every error names the file and the field.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ripieno/core/error.h"

namespace ripieno::report {

/// Every function throws Error(data) if the value is not of the requested kind. Value and path must outlive this
/// object.
class JsonField {
 public:
  JsonField(const nlohmann::json& value, const std::filesystem::path& file, std::string name = "")
      : value_(value), file_(file), name_(std::move(name)) {}

  /// The member `key` of an object, which must have it.
  JsonField at(const std::string& key) const {
    if (!value_.is_object()) refuse("an object");
    const std::string full = name_.empty() ? key : name_ + "." + key;
    const auto found = value_.find(key);
    if (found == value_.end()) fail(ErrorKind::data, file_.string(), ": field ", full, " is missing");
    return {*found, file_, full};
  }
  bool has(const std::string& key) const { return value_.is_object() && value_.contains(key); }
  bool is_null() const { return value_.is_null(); }

  std::vector<JsonField> items() const {
    if (!value_.is_array()) refuse("an array");
    std::vector<JsonField> all;
    for (std::size_t i = 0; i < value_.size(); ++i) all.emplace_back(value_[i], file_, text(name_, "[", i, "]"));
    return all;
  }
  /// The members of an object.
  std::vector<std::pair<std::string, JsonField>> members() const {
    if (!value_.is_object()) refuse("an object");
    std::vector<std::pair<std::string, JsonField>> all;
    for (const auto& [key, value] : value_.items()) all.emplace_back(key, JsonField(value, file_, name_ + "." + key));
    return all;
  }

  std::string string() const {
    if (!value_.is_string()) refuse("a string");
    return value_.get<std::string>();
  }
  bool boolean() const {
    if (!value_.is_boolean()) refuse("true or false");
    return value_.get<bool>();
  }
  double number() const {
    if (!value_.is_number()) refuse("a number");
    return value_.get<double>();
  }
  std::uint64_t count() const {
    if (!value_.is_number_unsigned()) refuse("a whole number of 0 or more");
    return value_.get<std::uint64_t>();
  }
  std::int64_t whole() const {
    const bool fits = !value_.is_number_unsigned() ||
                      value_.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    if (!value_.is_number_integer() || !fits) refuse("a whole number of 64 bits with sign");
    return value_.get<std::int64_t>();
  }
  int small_count() const {
    if (count() > std::uint64_t{std::numeric_limits<int>::max()}) refuse("a whole number below 2^31");
    return static_cast<int>(count());
  }

  [[noreturn]] void refuse(std::string_view wanted) const {
    std::string there = value_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (value_.is_structured()) there = std::string("an ") + value_.type_name();
    if (there.size() > 40) there = there.substr(0, 40) + "...";
    fail(ErrorKind::data, file_.string(), ": ", name_.empty() ? "the whole" : "field " + name_, " must be ", wanted,
         ", not ", there);
  }

 private:
  const nlohmann::json& value_;
  const std::filesystem::path& file_;
  std::string name_;
};

}  // namespace ripieno::report
