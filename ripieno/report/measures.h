// What can be said of a run in one number: the columns that recipes' published tables are about.
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
  const char* name;   ///< as recipes write it
  const char* title;  ///< with its unit
  /// None where the run has nothing to say of it.
  std::function<std::optional<double>(const Run&)> of;
  std::vector<std::string> field = {};  ///< of summary.json, where it is from there
};

/// The mean over all steps of a run's workers; none without steps.
std::optional<double> mean_step(const Run& run, const std::function<double(const StageSeconds&)>& part);
std::optional<double> mean_step(const Run& run, observe::Stage stage);
/// What these ranks' samples say together, a second of a rank; none without samples.
std::optional<double> mean_second(const std::vector<const Metrics*>& ranks,
                                  const std::function<double(const SampleLine&)>& amount);

std::span<const Measure> measures();

/// Throws Error(usage) that names the nearest known one and lists all.
const Measure& find_measure(std::string_view name);

}  // namespace ripieno::report
