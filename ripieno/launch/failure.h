// Picks the failure of a job to report: the cause, not its consequences.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/core/error.h"

namespace ripieno::launch {

struct Failure {
  int rank;  ///< whose failure; -1: the rendezvous'
  Error error;
  bool follows;             ///< it is a consequence of losing a peer
  std::optional<int> code;  ///< the program's exit code, if it ended without a message
};

/// The first failure that is no consequence of another. If all are: prefers a rank that waited in vain to one that saw
/// a peer end, and among those takes the end of the chain: if rank 1 gave up on rank 0, and rank 0 on rank 2, rank 0's
/// failure. A loss passed on by others stands in for a rank that has none of its own. Decides by values: what the
/// messages say is for people.
const Failure& cause_of(const std::vector<Failure>& failures);

/// The cause was a worker that exited with its own code and without a message (control.h). Of kind peer.
class WorkerExited : public Error {
 public:
  WorkerExited(const Error& error, int code) : Error(error), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

/// Throws the cause as a WorkerExited or an Error. There is at least one failure. `losses`: of workers without which
/// the others were to go on; one is the cause if the cause of the failures blames that worker.
[[noreturn]] void throw_cause(const std::vector<Failure>& failures, const std::vector<Failure>& losses = {});

/// {"rank": 1, "how": "ended", "told_by": null}; null without a loss.
nlohmann::json to_json(const std::optional<Loss>& loss);
/// What does not fit is left out: nullopt without a rank.
std::optional<Loss> loss_from(const nlohmann::json& json);

/// {"rank": 2, "kind": "peer", "message": "lost rank 1", "loss": .., "follows": true, "code": null}
nlohmann::json to_json(const Failure& failure);
/// What does not fit is taken as a failure of kind internal.
Failure failure_from(const nlohmann::json& json);

/// The error as `rank`'s: its message begins with "rank N", whose ever.
Error named(const Error& error, int rank);

/// Of the kind's name; internal if there is none.
ErrorKind kind_named(const std::string& kind);

}  // namespace ripieno::launch
