// A run's folder: runs/0007-ring-n2/ with env.json (the machine and the build), a metrics-RANK.jsonl for each rank, and
// at the end summary.json. A run of the program has config.toml (every value that it used) beside these, asked.toml
// (the values that it was given, if it chose others), a state-RANK.pt for each rank, and model.pt; a run of a loop of
// one's own has loop.json (what it said of itself). docs/runs.md has their fields.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace ripieno::observe {

class RunFolder {
 public:
  /// One that exists.
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  /// Whether the folder is a run's, finished or not.
  static bool is_one(const std::filesystem::path& path);
  /// Makes a new folder in `runs`, with the next free number: "0007-" and `name`. Throws Error(usage) for a name that
  /// cannot be a folder's, calling it `key`; Error(io).
  static RunFolder create(const std::filesystem::path& runs, const std::string& name, const std::string& key);
  /// Removes a folder whose run has ended before its first step, and so has nothing to show; leaves others.
  static void remove_if_nothing_came(const std::filesystem::path& path) noexcept;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.toml"; }
  std::filesystem::path loop() const { return path_ / "loop.json"; }
  std::filesystem::path asked() const { return path_ / "asked.toml"; }
  std::filesystem::path environment() const { return path_ / "env.json"; }
  std::filesystem::path metrics(int rank) const;
  std::filesystem::path trace(int rank) const;
  std::filesystem::path trace() const { return path_ / "trace.json"; }
  std::filesystem::path state(int rank) const;
  /// An older state, kept until all ranks have a newer one: after so many epochs, and steps of the next.
  std::filesystem::path state(int rank, std::uint32_t epochs, std::uint32_t steps) const;
  std::filesystem::path model() const { return path_ / "model.pt"; }
  std::filesystem::path summary() const { return path_ / "summary.json"; }

 private:
  std::filesystem::path path_;
};

/// env.json: a description of this machine and build, as JSON: host, processor, cores, memory, kernel, compiler; then
/// LibTorch's version, and what has started the job's processes.
std::string environment_json(const std::string& libtorch, const std::string& launcher);

}  // namespace ripieno::observe
