// One step of a run, all ranks on one line of time, from the traces that `run.trace = true` left (docs/runs.md): what
// each rank did when, and who sent what to whom. As numbers (read_step_timeline) and as a drawing of a report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/report/report.h"
#include "ripieno/report/run.h"

namespace ripieno::report {

/// Times are seconds from the beginning of what is shown.
struct StepTimeline {
  struct Bar {
    std::string what;       ///< "read", "forward", "backward", "optimise", "evaluate", "exchange"; "exposed", "wait":
                            ///< compute waited for one
    std::size_t index = 0;  ///< of an exchange and of a wait: the bucket
    double begin = 0, end = 0;
    std::size_t row = 0;  ///< of exchanges, which go on side by side: those of one row do not overlap
  };
  struct Lane {
    int rank = 0;
    std::vector<Bar> bars;  ///< by their beginning; they may begin before 0 and end after `length`
    std::size_t exchange_rows = 0;
  };
  /// A message, from the beginning of its send to the end of its receive.
  struct Arrow {
    int from = 0, to = 0;
    double begin = 0, end = 0;
    std::uint64_t bytes = 0;
    std::string operation;   ///< "ring"
    bool in_memory = false;  ///< part of an all-reduce through shared memory, which sends no messages; bytes are those
                             ///< of all numbers
  };
  std::uint64_t step = 0;  ///< from 0, over the whole run
  bool is_shared = true;   ///< the step of all workers; else that of the first alone, whose others are elsewhere
  double length = 0;
  double clock_error = 0;     ///< by how much the clocks of two ranks may differ, at the beginning of the run
  std::vector<Lane> lanes;    ///< of each rank that left a trace, in order
  std::vector<Arrow> arrows;  ///< by their beginning: those that are under way between 0 and `length`
};

/// Of `step`; without it, of the step next to the middle of the last epoch in which the first worker exchanged
/// anything. Nothing where the run left no trace. Error(usage): there is no such step; Error(data): a trace cannot be
/// read.
std::optional<StepTimeline> read_step_timeline(const Run& run, std::optional<std::uint64_t> step = {});

/// It as a drawing of a report, with its numbers. `title` names the run.
Drawing drawing_of(const StepTimeline& timeline, const std::string& id, const std::string& title);

/// A drawing of each cell's first run, where that left a trace. Error(usage): `step` is given and none did.
std::vector<Drawing> step_drawings(const std::vector<Run>& runs, std::optional<std::uint64_t> step);

}  // namespace ripieno::report
