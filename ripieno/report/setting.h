// The setting that runs must share to be compared (model, data, workers, batch, link), and its wording; and which of a
// run's settings concern what.
#pragma once

#include <initializer_list>
#include <set>
#include <span>
#include <string>

#include "ripieno/report/run.h"

namespace ripieno::report {

inline constexpr const char* one_machine_link = "one machine, shared memory";
/// "two emulated machines, 100 Mb/s each"; "1000 Mb/s, 50 µs, in virtual time"; "shared memory"; "" if unknown.
std::string link_of(const Run& run);

/// The links' limits: "1000 Mb/s, 50 µs", "100 Mb/s"; "" if they have none or if unknown.
std::string link_limits_of(const Run& run);
/// "compute 0.1 times as slow", "compute [1, 2] times as slow" of ranks that differ; "" at their own speed.
std::string slowness_of(const Run& run);

/// What a recipe limits computing to: "0.45 cores a node, 2 threads a worker"; "" for a thread a worker and
/// whole cores.
std::string cores_of(const Run& run);

/// A string of everything that must be the same for times, bytes and accuracies to be comparable; equal strings mean
/// equal settings. Learning rates and the like may differ: each way has its own.
std::string setting_of(const Run& run);

/// What a setting concerns.
enum class Concern {
  nothing,    ///< no number: the seed, names, folders, addresses
  agreement,  ///< how workers agree: strategy, codec, local steps
  place,      ///< where: links, emulated machines, threads
  workers,    ///< how many, and each one's part
  rate,       ///< the learning rate
  training,   ///< all else
};
Concern concern_of(const std::string& key);
/// A string of those of the run's settings that concern one of these; equal strings mean equal settings.
std::string settings_of(const Run& run, std::initializer_list<Concern> concerns);
/// The keys that concern any number and whose values differ among the runs, but for those that a cell's name has
/// anyway (model, strategy, ..).
std::set<std::string> different_keys(const std::vector<const Run*>& runs);

/// The recipe's keys that belong to it.
std::span<const char* const> setting_keys();
/// A key's value in a run's settings, in words: a rate as "100 Mb/s", others with their key: "epochs 5", and for those
/// that are not of the setting above "learning_rate.base 0.05"; "" if the settings were not read.
std::string setting_value(const Run& run, const std::string& key);

/// "mnist-cnn on digits, 2 workers, batch 100, 100 Mb/s"
std::string setting_in_words(const Run& run);

}  // namespace ripieno::report
