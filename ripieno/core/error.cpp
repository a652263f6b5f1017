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

}  // namespace ripieno
