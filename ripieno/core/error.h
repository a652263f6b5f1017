// Errors. A failure from outside (bad input, a lost peer) is an Error with its kind, which is also the program's exit
// code; a bug in the program is an Error of kind `internal`, thrown by require(). docs/errors.md lists both for users.
#pragma once

#include <exception>
#include <optional>
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

/// How a rank was lost.
enum class Lost : unsigned char {
  ended,     ///< its process has ended, or its connection
  silent,    ///< it was waited for in vain, and may be alive
  gave_up,   ///< it has ended with an error of its own
  left_out,  ///< the others go on without it
};

/// "ended", "silent", ...
const char* name(Lost how);

/// The loss of a rank. An Error tells people in its message; what a program decides, it decides by this.
struct Loss {
  int rank = -1;  ///< who is lost; -1: that is not known
  Lost how = Lost::ended;
  std::optional<int> told_by = {};  ///< the rank that has passed it on; empty: whoever throws has seen it
  bool operator==(const Loss&) const = default;
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, std::optional<Loss> loss = std::nullopt)
      : std::runtime_error(message), kind_(kind), loss_(loss) {}
  /// Of kind peer.
  Error(const Loss& loss, const std::string& message) : Error(ErrorKind::peer, message, loss) {}
  ErrorKind kind() const { return kind_; }
  /// The loss that this error is a consequence of, if it is one.
  const std::optional<Loss>& loss() const { return loss_; }
  /// The same error in other words.
  Error reworded(const std::string& message) const { return Error(kind_, message, loss_); }

 private:
  ErrorKind kind_;
  std::optional<Loss> loss_;
};

/// Error::loss(); nullopt for exceptions of other types.
std::optional<Loss> loss_of(const std::exception_ptr& error);

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

/// Of kind peer.
template <class... Parts>
[[noreturn]] void fail(const Loss& loss, const Parts&... parts) {
  throw Error(loss, text(parts...));
}

/// Asserts what only a bug in Ripieno (or in a strategy built on it) can make false.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) fail(ErrorKind::internal, parts...);
}

}  // namespace ripieno
