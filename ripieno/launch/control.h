// A worker's messages to its launcher: one JSON object a line over a pipe. {"type": "lost-peer"}: the user's own loop
// got an Error(peer), so if this worker fails it is not the cause (join() sends it).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ripieno/core/descriptor.h"

namespace ripieno {
class Error;
}

namespace ripieno::launch {

/// For one thread at a time. A launcher that has ended or does not read neither ends the worker nor delays it for more
/// than a second per message: unwritten messages are dropped after that, but always whole ones.
class Control {
 public:
  /// Owns the descriptor; -1 for a worker without a launcher.
  explicit Control(int fd);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Whether a launcher is listening.
  bool has_listener() const { return pipe_.is_open(); }
  void send(const nlohmann::json& message);
  /// Sends {"type": "failed", "kind": ..., "message": ...}, which the launcher then reports as the job's failure.
  void failed(const Error& error);

 private:
  /// Writes as much of `unsent_` as it can within half a second.
  void flush();

  Descriptor pipe_;
  std::string unsent_;
};

}  // namespace ripieno::launch
