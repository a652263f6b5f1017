// Samples the usage of a worker and its machine at intervals, on the same clock as its steps; each sample is a line in
// its metrics (docs/runs.md). A sample takes about 0.1 ms on the runtime's thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ripieno/core/runtime.h"
#include "ripieno/observe/recorder.h"
#include "ripieno/observe/usage.h"

namespace ripieno::observe {

class UsageSampler {
 public:
  /// Counting begins now. The first sample is taken after `every` (> 0), the last one on destruction. Runtime and
  /// recorder must outlive it. In real time only. `awaited`: the ranks that this rank waits for; null: not known.
  UsageSampler(Runtime& runtime, Recorder& recorder, Duration every,
               std::function<std::vector<int>()> awaited = nullptr);
  ~UsageSampler();
  UsageSampler(const UsageSampler&) = delete;
  UsageSampler& operator=(const UsageSampler&) = delete;

  /// The part of the machine's CPU time that all processes together have used since construction: 0 to 1.
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
  const std::function<std::vector<int>()> awaited_;
  Counts first_, last_;
  Runtime::Timer timer_{};
};

}  // namespace ripieno::observe
