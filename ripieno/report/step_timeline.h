// One step of a run, with all ranks on one time axis, from the traces of `run.trace = true` (docs/runs.md): what each
// rank did when, and who sent what to whom. As numbers (read_step_timeline) and as a drawing for a report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/report/report.h"
#include "ripieno/report/run.h"

namespace ripieno::report {

/// Times are seconds from the beginning of the shown interval.
struct StepTimeline {
  struct Bar {
    std::string what;       ///< "read", "forward", "backward", "optimise", "evaluate", "exchange"; "exposed", "wait":
                            ///< compute waited for one
    std::size_t index = 0;  ///< the bucket of an exchange or a wait
    double begin = 0, end = 0;
    std::size_t row = 0;  ///< for exchanges, which overlap: those in one row do not
  };
  struct Lane {
    int rank = 0;
    std::vector<Bar> bars;  ///< by beginning; they may begin before 0 and end after `length`
    std::size_t exchange_rows = 0;
  };
  /// A message, from the start of its send to the end of its receive.
  struct Arrow {
    int from = 0, to = 0;
    double begin = 0, end = 0;
    std::uint64_t bytes = 0;
    std::string operation;  ///< "ring"
    bool in_memory =
        false;  ///< part of an all-reduce through shared memory, which sends no messages; `bytes` counts all numbers
  };
  std::uint64_t step = 0;  ///< from 0, over the whole run
  bool is_shared =
      true;  ///< all workers take this step together; else it is the first worker's, and others are at other steps
  double length = 0;
  double clock_error = 0;     ///< how much the clocks of two ranks may differ, at the start of the run
  std::vector<Lane> lanes;    ///< one for each rank with a trace, in order
  std::vector<Arrow> arrows;  ///< by beginning: messages in flight between 0 and `length`
};

/// The timeline of `step`; by default the step nearest to the middle of the last epoch in which the first worker
/// exchanged something. nullopt if the run has no trace. Error(usage): there is no such step; Error(data): a trace
/// cannot be read.
std::optional<StepTimeline> read_step_timeline(const Run& run, std::optional<std::uint64_t> step = {});

/// The timeline as a drawing with its numbers. `title` names the run.
Drawing drawing_of(const StepTimeline& timeline, const std::string& id, const std::string& title);

/// A drawing for each cell whose first run has a trace. Error(usage): `step` is given, but no run has a trace.
std::vector<Drawing> step_drawings(const std::vector<Run>& runs, std::optional<std::uint64_t> step);

}  // namespace ripieno::report
