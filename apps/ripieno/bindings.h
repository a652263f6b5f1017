// Row kinds for the table of keys (settings_table.cpp). Each binds a key to a member of the options (given as a
// function that finds it), with default, range and help, and converts the key's value to the member's.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/ripieno/settings.h"

namespace ripieno::program {

/// A key whose value of type T is assigned to the member unchanged.
template <class T, class At>
Setting bound(std::string key, At at, T standard, std::string help) {
  using Member = std::remove_reference_t<std::invoke_result_t<At, Options&>>;
  Setting setting{std::move(key), Value(std::move(standard)), std::move(help)};
  setting.write = [at](Options& options, const Value& value) { at(options) = static_cast<Member>(std::get<T>(value)); };
  return setting;
}

template <class At>
Setting flag(std::string key, At at, bool standard, std::string help) {
  return bound<bool>(std::move(key), at, standard, std::move(help));
}
template <class At>
Setting whole(std::string key, At at, std::int64_t standard, Bounds range, std::string help) {
  return bound<std::int64_t>(std::move(key), at, standard, std::move(help)).within(range);
}
template <class At>
Setting number(std::string key, At at, double standard, Bounds range, std::string help) {
  return bound<double>(std::move(key), at, standard, std::move(help)).within(range);
}
template <class At>
Setting list(std::string key, At at, Bounds range, std::string help) {
  return bound<std::vector<double>>(std::move(key), at, {}, std::move(help)).within(range);
}
template <class At>
Setting word(std::string key, At at, std::string standard, std::string help, std::vector<std::string> allowed = {}) {
  Setting setting = bound<std::string>(std::move(key), at, std::move(standard), std::move(help));
  setting.allowed = std::move(allowed);
  return setting;
}
template <class At>
Setting folder(std::string key, At at, std::string standard, std::string help) {
  Setting setting = word(std::move(key), at, std::move(standard), std::move(help));
  setting.is_path = true;
  return setting;
}

/// Words for values of the member; the first is the default.
template <class At>
using Choices = std::vector<std::pair<std::string, std::remove_reference_t<std::invoke_result_t<At, Options&>>>>;

template <class At>
Setting choice(std::string key, At at, std::type_identity_t<Choices<At>> choices, std::string help) {
  Setting setting{std::move(key), Value(choices.front().first), std::move(help)};
  for (const auto& [name, value] : choices) setting.allowed.push_back(name);
  setting.write = [at, choices = std::move(choices)](Options& options, const Value& value) {
    const auto is_it = [&](const auto& one) { return one.first == std::get<std::string>(value); };
    at(options) = std::find_if(choices.begin(), choices.end(), is_it)->second;
  };
  return setting;
}

/// An integer in units of 1024 bytes, for a member that counts bytes.
template <class At>
Setting kib(std::string key, At at, std::int64_t standard, Bounds range, std::string help) {
  Setting setting = whole(std::move(key), at, standard, range, std::move(help));
  setting.write = [at](Options& options, const Value& value) {
    at(options) = static_cast<std::size_t>(std::get<std::int64_t>(value)) << 10;
  };
  return setting;
}

/// A number that `convert` turns into the member's value.
template <class At, class Convert>
Setting converted(std::string key, At at, Convert convert, double standard, Bounds range, std::string help) {
  Setting setting{std::move(key), Value(standard), std::move(help)};
  setting.write = [at, convert](Options& options, const Value& value) {
    at(options) = convert(std::get<double>(value));
  };
  return setting.within(range);
}

/// The time per byte of a link of so many 10^6 bits a second.
inline Duration seconds_a_byte(double mbit_s) { return from_seconds(8e-6 / mbit_s); }

/// A number of `unit` seconds, for a member that is a Duration.
template <class At>
Setting duration(std::string key, At at, double unit, double standard, Bounds range, std::string help) {
  return converted(
      std::move(key), at, [unit](double value) { return from_seconds(value * unit); }, standard, range,
      std::move(help));
}

}  // namespace ripieno::program
