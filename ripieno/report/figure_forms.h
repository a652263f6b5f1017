// A figure as JSON and as a table; internal to report/.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "ripieno/report/report.h"

namespace ripieno::report {

/// The members are Figure's, without empty ones; sources are given by name.
nlohmann::ordered_json figure_json(const Figure& figure, const std::function<std::string(const Source&)>& source_name);

/// One row per number: series, x on every axis or the category, y, and its spread if there is one.
ReportTable numbers_of(const Figure& figure);

}  // namespace ripieno::report
