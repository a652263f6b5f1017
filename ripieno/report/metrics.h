// A rank's metrics-RANK.jsonl, read back (docs/runs.md has its lines). Every line keeps its number in the file, so that
// a figure can name its source.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/report/summary.h"

namespace ripieno::report {

struct StepLine {
  std::size_t line = 0;  ///< in its file, from 1
  double time = 0;       ///< seconds since the worker began
  std::uint32_t epoch = 0;
  std::uint64_t step = 0;
  std::optional<double> loss;  ///< NaN if not finite; nullopt: not known
  std::uint32_t samples = 0;
  StageSeconds seconds;
  std::optional<ByteCounts> bytes;  ///< nullopt: not known, here and below
  std::optional<std::int64_t> age;
};

struct EpochLine {
  std::size_t line = 0;
  double time = 0;
  std::uint32_t epoch = 0;
  double seconds = 0;   ///< of training
  StageSeconds stages;  ///< since the last step
  std::optional<TestResult> test;
  std::optional<ByteCounts> bytes;     ///< since the previous line
  std::optional<double> own_accuracy;  ///< of the rank's own weights, where they are not the consensus
};

/// Usage in the `seconds` before `time`.
struct SampleLine {
  std::size_t line = 0;
  double time = 0, seconds = 0;
  double cpu_user = 0, cpu_system = 0;  ///< of the process, CPU seconds
  double machine_user = 0, machine_system = 0, machine_idle = 0, machine_stolen = 0;
  double resident = 0;  ///< bytes at `time`
  double switches_waiting = 0, switches_forced = 0;
  double bytes_sent = 0, bytes_received = 0, packets_sent = 0, packets_received = 0;  ///< over the network
  double loopback_bytes = 0, loopback_packets = 0;                                    ///< sent
  double retransmits = 0;
  std::vector<int> waits_for;  ///< ranks, at `time`
};

struct StartLine {
  std::size_t line = 0;
  int rank = 0, ranks = 1;
  std::string host, network;  ///< network: "" in files from before this field existed
  std::uint32_t first_epoch = 0, epochs = 0;
  std::uint64_t steps_per_epoch = 0;
  std::uint64_t earlier_lines = 0;  ///< that follow and are of the run that this one goes on from
  double unix_time = 0;             ///< at time 0, in seconds since 1970; 0: not given (virtual time)
};

struct Metrics {
  std::filesystem::path file;
  std::optional<StartLine> start;
  std::vector<StepLine> steps;
  std::vector<EpochLine> epochs;
  std::vector<SampleLine> samples;
};

/// Reads a file that may still be written.
class MetricsReader {
 public:
  explicit MetricsReader(const std::filesystem::path& file) { metrics_.file = file; }
  /// Reads everything written by now. Skips lines of unknown types; an incomplete last line waits for the next call.
  /// Throws Error(data) if the file cannot be read, or, with file, line and field, if a line is wrong.
  const Metrics& read();

 private:
  Metrics metrics_;
  std::uint64_t done_ = 0;  // bytes
  std::size_t lines_ = 0;
};

Metrics read_metrics(const std::filesystem::path& file);

}  // namespace ripieno::report
