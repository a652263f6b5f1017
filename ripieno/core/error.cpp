#include "ripieno/core/error.h"

namespace ripieno {

const char* name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::internal:
      return "internal";
    case ErrorKind::usage:
      return "usage";
    case ErrorKind::data:
      return "data";
    case ErrorKind::io:
      return "io";
    case ErrorKind::network:
      return "network";
    case ErrorKind::peer:
      return "peer";
    case ErrorKind::mismatch:
      return "mismatch";
  }
  return "unknown";
}

const char* name(Lost how) {
  switch (how) {
    case Lost::ended:
      return "ended";
    case Lost::silent:
      return "silent";
    case Lost::gave_up:
      return "gave up";
    case Lost::left_out:
      return "left out";
  }
  return "unknown";
}

std::optional<Loss> loss_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.loss();
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace ripieno
