// A run's folder: runs/0007-ring-n2/ with config.toml (every value that the run used), asked.toml (the values that it
// was given, if it chose others), env.json (the machine and the build), a metrics-RANK.jsonl and a state-RANK.pt for
// each rank, model.pt, and at the end summary.json. docs/runs.md has their fields.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "apps/ripieno/settings.h"

namespace ripieno::program {

class RunFolder {
 public:
  /// An existing folder. Throws Error(data) if it has no config.toml.
  static RunFolder open(const std::filesystem::path& path);
  /// Makes a new folder with the next free number, with config.toml and env.json. Throws Error(io).
  static RunFolder create(const Settings& settings);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.toml"; }
  std::filesystem::path asked() const { return path_ / "asked.toml"; }
  std::filesystem::path metrics(int rank) const;
  std::filesystem::path trace(int rank) const;
  std::filesystem::path trace() const { return path_ / "trace.json"; }
  std::filesystem::path state(int rank) const;
  /// An older state, kept until all ranks have a newer one.
  std::filesystem::path state(int rank, std::int64_t epochs_done) const;
  std::filesystem::path model() const { return path_ / "model.pt"; }
  std::filesystem::path summary() const { return path_ / "summary.json"; }

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

/// What has started this job's processes: "ripieno", or a name of launch/launchers.h.
std::string launcher();

/// A description of this machine and build, as JSON: host, processor, cores, memory, kernel, compiler, LibTorch; and
/// who has started the job's processes.
std::string environment_json();

}  // namespace ripieno::program
