// Splits the time of a loop's steps into stages, which the loop marks:
//
//   enter(forward) .. leave()   enter(backward) .. leave()   enter(optimise) .. leave()   take()
//
// A stage within another one counts for itself. Of a stage backward, what comes after its last gradient counts as
// exchange if gradients are exchanged: all that is left then is to wait for that. What no stage has counts as other.
#pragma once

#include <atomic>
#include <string_view>
#include <vector>

#include "ripieno/core/runtime.h"
#include "ripieno/observe/recorder.h"

namespace ripieno::loop {

/// "read", "forward", "backward", "exchange", "optimise" and "evaluate" can be marked. Error(usage), with these, for
/// another name.
observe::Stage stage_named(std::string_view name);

class StageClock {
 public:
  /// The first step begins now. `exchanges`: whether backward passes exchange gradients. `runtime` must outlive it.
  StageClock(const Runtime& runtime, bool exchanges);

  void enter(observe::Stage stage);
  /// Error(usage) if no stage is open.
  void leave();
  /// A gradient is complete. On any thread.
  void gradient_is_there() { last_gradient_ = runtime_.now().count(); }
  /// The times since the last call, or the beginning. Error(usage) within a stage; `doing` is what it keeps from.
  observe::StageTimes take(std::string_view doing);

 private:
  struct Open {
    observe::Stage stage;
    Duration begun;
    Duration within{0};  ///< of it, stages within it
  };

  const Runtime& runtime_;
  const bool exchanges_;
  std::vector<Open> open_;
  observe::StageTimes times_{};
  Duration taken_;
  std::atomic<Duration::rep> last_gradient_{0};
};

}  // namespace ripieno::loop
