// Errors. A failure from outside (bad input, a lost peer) is an Error with its kind, which is also the program's exit
// code; a bug in the program is an Error of kind `internal`, thrown by require(). docs/errors.md lists both for users.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace ripieno {

/// The value is the program's exit code.
enum class ErrorKind : int {
  internal = 1,  ///< a bug in Ripieno: an assertion failed
  usage = 2,     ///< an invalid command line, recipe or option
  data = 3,      ///< a data set or checkpoint that is missing, truncated or corrupt
  io = 4,        ///< a file or folder that cannot be written or read
  network = 5,   ///< an address that cannot be listened on or reached
  peer = 6,      ///< a worker that was lost, or ended with an error of its own
  mismatch = 7,  ///< ranks that disagree: another recipe, model, operation or size
};

/// "usage", "data", ...
const char* name(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// Concatenates all parts, printed with operator<<.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {
  throw Error(kind, text(parts...));
}

/// Asserts what only a bug in Ripieno (or in a strategy built on it) can make false.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) fail(ErrorKind::internal, parts...);
}

}  // namespace ripieno
