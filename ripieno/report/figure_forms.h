// A figure as JSON and as a table; internal to report/.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "ripieno/report/report.h"

namespace ripieno::report {

/// Its members are Figure's, without those that are empty; sources by their names.
nlohmann::ordered_json figure_json(const Figure& figure, const std::function<std::string(const Source&)>& source_name);

/// A row a number: series, x on every axis or the category, y, and where there is one its spread.
ReportTable numbers_of(const Figure& figure);

}  // namespace ripieno::report
