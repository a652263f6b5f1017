// The process's environment, in which launchers describe a job. No other room reads it.
#pragma once

#include <optional>
#include <string>

namespace ripieno::launch {

/// nullopt: it is not set.
std::optional<std::string> variable(const char* name);

/// Error(usage), with name and value, unless the value is a whole number of at least `least`.
int number(const char* name, const std::string& value, int least);

/// Of a variable that is on or off. Error(usage), with name and value, if it is neither.
bool switched(const char* name, bool otherwise);

}  // namespace ripieno::launch
