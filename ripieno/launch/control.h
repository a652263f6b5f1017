// A worker's messages to its launcher: one JSON object a line over a pipe. {"type": "lost-peer", "loss": {"rank": 1,
// "how": "ended", "told_by": null}}: the user's own loop got an error because of a loss (core/error.h), so if this
// worker fails it is not the cause. {"type": "survives"}: from now on the job goes on without this worker, unless it is
// rank 0; all workers of such a job send it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ripieno/core/descriptor.h"

namespace ripieno {
class Error;
}

namespace ripieno::launch {

/// For one thread at a time. A launcher that has ended does not end the worker.
class Control {
 public:
  /// Owns the descriptor; -1 for a worker without a launcher.
  explicit Control(int fd);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Whether a launcher is listening.
  bool has_listener() const { return pipe_.is_open(); }
  /// What the launcher can do without: dropped, always as a whole, if the launcher does not read for half a second, and
  /// from then on at once until it reads.
  void send(const nlohmann::json& message);
  /// What it cannot do without, such as a result: waits until the launcher reads, stopped as it may be, or ends.
  void deliver(const nlohmann::json& message);
  /// Delivers {"type": "failed", "kind": .., "message": .., "loss": ..}, which the launcher then reports as the job's
  /// failure.
  void failed(const Error& error);

 private:
  /// Writes `unsent_` while the launcher reads something at least every `patience_ms`; -1: until all is written.
  void flush(int patience_ms);

  Descriptor pipe_;
  int patience_ms_;  // that send() has
  std::string unsent_;
};

}  // namespace ripieno::launch
