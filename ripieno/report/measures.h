// Measures: single numbers that describe a run, for the columns of recipes' published tables.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ripieno/report/run.h"

namespace ripieno::report {

struct Measure {
  const char* name;   ///< as in recipes
  const char* title;  ///< with its unit
  /// The run's value; nullopt if it has none.
  std::function<std::optional<double>(const Run&)> of;
  std::vector<std::string> field = {};  ///< the path in summary.json, if it comes from there
};

// A run that leaves out its workers' first steps (measure.skip_steps) leaves them out of all means over steps and
// seconds.

/// The mean over the steps of a run's workers; nullopt without steps.
std::optional<double> mean_step(const Run& run, const std::function<double(const StageSeconds&)>& part);
std::optional<double> mean_step(const Run& run, observe::Stage stage);
/// The mean of an amount per second and rank, over the samples of these of its ranks; nullopt without samples. Where
/// steps are left out, samples count from the last of these to the last step of all, one across an end by its part.
std::optional<double> mean_second(const Run& run, const std::vector<const Metrics*>& ranks,
                                  const std::function<double(const SampleLine&)>& amount);

std::span<const Measure> measures();

/// Throws Error(usage), which names the nearest known name and lists all, for an unknown name.
const Measure& find_measure(std::string_view name);

}  // namespace ripieno::report
