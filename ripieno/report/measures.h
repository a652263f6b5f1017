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

/// The mean over all steps of a run's workers; nullopt without steps.
std::optional<double> mean_step(const Run& run, const std::function<double(const StageSeconds&)>& part);
std::optional<double> mean_step(const Run& run, observe::Stage stage);
/// The mean of an amount per second and rank, over these ranks' samples; nullopt without samples.
std::optional<double> mean_second(const std::vector<const Metrics*>& ranks,
                                  const std::function<double(const SampleLine&)>& amount);

std::span<const Measure> measures();

/// Throws Error(usage), which names the nearest known name and lists all, for an unknown name.
const Measure& find_measure(std::string_view name);

}  // namespace ripieno::report
