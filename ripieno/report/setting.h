// What runs must have alike to be compared, and how it is said: model, data, workers, batch, link.
#pragma once

#include <span>
#include <string>

#include "ripieno/report/run.h"

namespace ripieno::report {

/// "two emulated machines, 100 Mb/s each"; "1 Gb/s, 50 µs, in virtual time"; "shared memory"; "" where nothing says it.
std::string link_of(const Run& run);

/// What runs must have alike so that their times, bytes and accuracies are of one question; equal strings, equal
/// settings.
std::string setting_of(const Run& run);

/// Keys of a recipe that are a part of it.
std::span<const char* const> setting_keys();
/// A key's value among a run's settings; a rate in words, "100 Mb/s", another with its key, "epochs 5"; "" where nobody
/// has read it.
std::string setting_value(const Run& run, const char* key);

/// "mnist-cnn on digits, 2 workers, batch 100, 100 Mb/s"
std::string setting_in_words(const Run& run);

}  // namespace ripieno::report
