// A run, read from its folder, finished or not; and runs that differ in their seed alone, taken together.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/report/figure.h"
#include "ripieno/report/metrics.h"
#include "ripieno/report/summary.h"

namespace ripieno::report {

/// "0007-ring-n2", also of "runs/0007-ring-n2/" and of "." in it.
std::string folder_name(const std::filesystem::path& folder);

struct Run {
  std::filesystem::path folder;
  Summary summary;
  std::string summary_text;    ///< of its file; "" of a run that has not finished
  std::vector<Metrics> ranks;  ///< of each rank, in order
  /// Every key of its config.toml with its value as TOML writes it ("lab.mbit_s": "100.0"); empty where nobody has read
  /// it.
  std::map<std::string, std::string> settings = {};
  bool exact = false;  ///< whether its strategy and codec take the steps of one worker with the whole batch

  std::filesystem::path summary_file() const { return folder / "summary.json"; }
  /// Where a field of the summary stands, by the names that lead to it: {"test", "accuracy"}, {"ranks", "1", "bytes"};
  /// its first line where there is none, and that of rank 0's metrics where there is no summary.
  Source source(const std::vector<std::string>& field = {}) const;
  /// Ranks that train: who takes time forward. A parameter server of its own does not.
  std::vector<int> workers() const;
  std::vector<const Metrics*> all_ranks() const;
  /// Whether anything went over a network beside the loopback.
  bool is_on_network() const;
  /// A rank for each network namespace: its samples are those of all ranks there. All ranks, where a file does not name
  /// them.
  std::vector<const Metrics*> nodes() const;
  /// Samples of all workers' first step together; 0 where there is none.
  std::uint64_t batch() const;
};

/// Whether a run in the folder ended as it should: it has its summary.
bool is_finished(const std::filesystem::path& folder);
/// Throws Error(data) where the folder holds no finished run, and what read_summary() and read_metrics() throw.
Run read_run(const std::filesystem::path& folder);
/// What is there of a run that was killed, or still runs: `known` (name, strategy, model, data set, codec, seed, kind,
/// ranks) with what its metrics say; bytes are the exchange's. Throws Error(data) where it has not taken a step, and
/// what read_metrics() throws.
Run read_unfinished(const std::filesystem::path& folder, Summary known);

/// Runs of the same name, strategy, model, data, ranks, codec and settings (setting.h); of several seeds, or of one
/// again. At least one.
struct Cell {
  std::vector<const Run*> runs;
  std::string name;  ///< "ring-fp16", and where several cells have that name, what they differ in: "ring-fp16, 4
                     ///< ranks"; with the mark of its kind where kinds differ
  Look look;         ///< in all figures

  const Run& first() const { return *runs.at(0); }
};
/// Which steps the runs' images a second count: a sentence.
std::string counted_steps(const std::vector<const Run*>& runs);
std::string counted_steps(const std::vector<Cell>& cells);
/// In the order in which their first runs are given.
std::vector<Cell> cells(const std::vector<Run>& runs);
std::vector<std::string> names_of(const std::vector<Cell>& cells);
/// A number a seed, of the runs that have one: repeats of a seed are its mean.
std::vector<double> seeds_of(const Cell& cell, const std::function<std::optional<double>(const Run&)>& value);

}  // namespace ripieno::report
