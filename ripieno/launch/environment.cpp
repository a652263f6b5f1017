#include "ripieno/launch/environment.h"

#include <charconv>
#include <cstdlib>

#include "ripieno/core/error.h"

namespace ripieno::launch {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value) return std::nullopt;
  return value;
}

int number(const char* name, const std::string& value, int least) {
  int parsed = 0;
  const char* last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, parsed);
  if (error != std::errc() || end != last || parsed < least) {
    fail(ErrorKind::usage, name, " is '", value, "', but must be a whole number of at least ", least);
  }
  return parsed;
}

bool switched(const char* name, bool otherwise) {
  const auto value = variable(name);
  if (!value) return otherwise;
  if (*value != "on" && *value != "off") fail(ErrorKind::usage, name, " is '", *value, "', but must be on or off");
  return *value == "on";
}

}  // namespace ripieno::launch
