// A finished run, read from its folder; and runs that differ in their seed alone, taken together.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ripieno/report/figure.h"
#include "ripieno/report/metrics.h"
#include "ripieno/report/summary.h"

namespace ripieno {

/// "0007-ring-n2", also of "runs/0007-ring-n2/" and of "." in it.
std::string folder_name(const std::filesystem::path& folder);

struct Run {
  std::filesystem::path folder;
  Summary summary;
  std::string summary_text;    ///< of its file
  std::vector<Metrics> ranks;  ///< of each rank, in order

  std::filesystem::path summary_file() const { return folder / "summary.json"; }
  /// Where a field of the summary stands, by the names that lead to it: {"test", "accuracy"}; its first line where there is none.
  Source source(const std::vector<std::string>& field = {}) const;
  /// Ranks that train: who takes time forward. A parameter server of its own does not.
  std::vector<int> workers() const;
  std::vector<const Metrics*> all_ranks() const;
  /// Whether anything went over a network beside the loopback.
  bool is_on_network() const;
  /// A rank for each network namespace: its samples are those of all ranks there. All ranks, where a file does not name them.
  std::vector<const Metrics*> nodes() const;
  /// Samples of all workers' first step together; 0 where there is none.
  std::uint64_t batch() const;
};

/// Throws Error(data) where the folder holds no finished run, and what read_summary() and read_metrics() throw.
Run read_run(const std::filesystem::path& folder);

/// The seeds of one cell: runs of the same name, strategy, model, data, ranks and codec. At least one.
using Cell = std::vector<const Run*>;
/// In the order in which their first runs are given.
std::vector<Cell> cells(const std::vector<Run>& runs);
/// "ring-fp16", and where several cells have that name, what they differ in: "ring-fp16, 4 ranks"; with the mark of its kind.
std::vector<std::string> cell_names(const std::vector<Cell>& cells);

}  // namespace ripieno
