// A run, read from its folder, finished or not; and cells of runs that differ only in their seed.
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

/// "0007-ring-n2", also for "runs/0007-ring-n2/" and for "." inside it.
std::string folder_name(const std::filesystem::path& folder);

struct Run {
  std::filesystem::path folder;
  Summary summary;
  std::string summary_text;    ///< content of its file; "" for an unfinished run
  std::vector<Metrics> ranks;  ///< of each rank, in order
  /// Every key of its config.toml, or loop.json, with its value in TOML ("lab.mbit_s": "100.0"); empty if the file was
  /// not read.
  std::map<std::string, std::string> settings = {};
  bool own_loop = false;  ///< of a loop of one's own, which names its settings itself
  /// What a model gets that has learnt nothing, as fractions of the test set.
  struct Guessing {
    double mean = 0;  ///< 1 / classes
    double most = 0;  ///< by luck: three standard deviations of the test set's sample above the mean
  };
  std::optional<Guessing> guessing = {};  ///< nullopt: not known
  bool exact = false;  ///< whether its strategy and codec take the steps of one worker with the whole batch

  std::filesystem::path summary_file() const { return folder / "summary.json"; }
  /// The source of a summary's field, given by its path: {"test", "accuracy"}, {"ranks", "1", "bytes"}. The summary's
  /// first line if there is no such field, and the first line of rank 0's metrics if there is no summary.
  Source source(const std::vector<std::string>& field = {}) const;
  /// The ranks that train, which spend time on forward passes. A rank that is only a parameter server does not.
  std::vector<int> workers() const;
  std::vector<const Metrics*> all_ranks() const;
  /// Whether anything went over a network other than the loopback.
  bool is_on_network() const;
  /// One rank for each network namespace, whose samples are those of all ranks there. All ranks if a file does not name
  /// its namespace.
  std::vector<const Metrics*> nodes() const;
  /// Samples of all workers in their first step; 0 without steps.
  std::uint64_t batch() const;
};

/// Whether the folder's run has finished: it has its summary.
bool is_finished(const std::filesystem::path& folder);
/// Throws Error(data) if the folder holds no finished run, and as read_summary() and read_metrics().
Run read_run(const std::filesystem::path& folder);
/// Reads a run that was killed or still runs: `known` (name, strategy, model, data set, codec, seed, kind, ranks)
/// completed from its metrics; bytes are the exchange's. Throws Error(data) if it has not taken a step, and as
/// read_metrics().
Run read_unfinished(const std::filesystem::path& folder, Summary known);

/// Runs of the same name, strategy, model, data, ranks, codec and of all settings that concern any number (setting.h);
/// of several seeds, or repeats of one. At least one run.
struct Cell {
  std::vector<const Run*> runs;
  std::string name;  ///< "ring-fp16"; if several cells have that name, with their difference: "ring-fp16, 4 ranks"; if
                     ///< kinds differ, with the mark of its kind
  Look look;         ///< in all figures

  const Run& first() const { return *runs.at(0); }
};
/// A sentence: which steps the runs' rates count, and means over steps and seconds.
std::string counted_steps(const std::vector<const Run*>& runs);
std::string counted_steps(const std::vector<Cell>& cells);
/// In the order of their first runs.
std::vector<Cell> cells(const std::vector<Run>& runs);
std::vector<std::string> names_of(const std::vector<Cell>& cells);
/// One number per seed, of the runs that have one: the mean over a seed's repeats.
std::vector<double> seeds_of(const Cell& cell, const std::function<std::optional<double>(const Run&)>& value);

}  // namespace ripieno::report
