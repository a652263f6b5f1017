// Samples what a worker and its machine use, every so often, on the clock of the worker's steps: a line each in its
// metrics (docs/runs.md). A sample costs some 0.1 ms of the runtime's thread.
#pragma once

#include <memory>
#include <optional>

#include "ripieno/core/runtime.h"
#include "ripieno/observe/recorder.h"
#include "ripieno/observe/usage.h"

namespace ripieno::observe {

class UsageSampler {
 public:
  /// The first sample is taken `every` after now, the last one when it is destroyed; what it counts begins now. `every`
  /// > 0; both must outlive it. In real time only.
  UsageSampler(Runtime& runtime, Recorder& recorder, Duration every);
  ~UsageSampler();
  UsageSampler(const UsageSampler&) = delete;
  UsageSampler& operator=(const UsageSampler&) = delete;

  /// Of the machine's CPU time since it was made, the part that was used, by anybody: 0 to 1.
  double machine_busy() const;

 private:
  struct Counts {
    Duration time;
    ProcessUsage process;
    MachineUsage machine;
    NetworkUsage network;
  };
  Counts counts() const;
  void sample() noexcept;
  void record();
  void wait();

  Runtime& runtime_;
  Recorder& recorder_;
  Duration every_;
  Counts first_, last_;
  Runtime::Timer timer_{};
};

}  // namespace ripieno::observe
