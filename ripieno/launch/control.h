// A worker's messages to its launcher: one JSON object a line over a pipe. {"type": "lost-peer"}: an own loop got an
// Error(peer), so if this worker ends badly it is not the cause (join() sends it).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ripieno/core/descriptor.h"

namespace ripieno {
class Error;
}

namespace ripieno::launch {

/// Used by one thread at a time. A launcher that has gone, or that does not read, neither ends the worker nor holds it
/// up for more than a second a message: what cannot be written by then is dropped, but never half a message.
class Control {
 public:
  /// Owns the descriptor; -1 for a worker that nobody listens to.
  explicit Control(int fd);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Whether there is a launcher that hears.
  bool has_listener() const { return pipe_.is_open(); }
  void send(const nlohmann::json& message);
  /// {"type": "failed", "kind": ..., "message": ...}: what the launcher then reports as the job's failure.
  void failed(const Error& error);

 private:
  /// Writes what it can of `unsent_` within half a second.
  void flush();

  Descriptor pipe_;
  std::string unsent_;
};

}  // namespace ripieno::launch
