#include "ripieno/report/published.h"

#include <cmath>

#include "ripieno/core/error.h"
#include "ripieno/report/format.h"
#include "ripieno/report/measures.h"
#include "ripieno/report/statistics.h"

namespace ripieno {
namespace {

struct Ours {
  std::vector<double> seeds;
  std::vector<const Summary*> runs;
  std::optional<Source> source;
};

/// Of all runs of that name.
Ours ours(const Measure& measure, const std::string& cell, const std::vector<Run>& runs) {
  Ours found;
  for (const Run& run : runs) {
    if (run.summary.name != cell) continue;
    const auto value = measure.of(run);
    if (!value) continue;
    found.seeds.push_back(*value);
    found.runs.push_back(&run.summary);
    if (!found.source) found.source = run.source(measure.field);
  }
  return found;
}

std::string shown(const Ours& here) {
  if (here.seeds.empty()) return "–";
  const std::string middle = format_figures(mean(here.seeds)), mark = mark_of(here.runs);
  return (here.seeds.size() > 1 ? middle + " ± " + format_figures(interval95(here.seeds)) : middle) + mark;
}

}  // namespace

ReportTable published_table(const Published& published, const std::vector<Run>& runs, const std::string& id) {
  ReportTable table{id, published.title, published.note, {{"cell", true}}, {}};
  for (const std::string& name : published.measures) {
    table.columns.push_back({find_measure(name).title});
    table.columns.push_back({"published"});
  }
  const bool relative = published.measures.size() == 1 && published.rows.size() > 1;
  if (relative) {
    table.columns.push_back({"to the first"});
    table.columns.push_back({"published"});
  }
  double first_here = NAN, first_there = NAN;
  for (const auto& [cell, values] : published.rows) {
    require(values.size() == published.measures.size(), published.title, ": ", cell, " has ", values.size(), " values for ", published.measures.size(), " measures");
    std::vector<ReportCell> row{{cell, {}}};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Ours here = ours(find_measure(published.measures[i]), cell, runs);
      row.push_back({shown(here), here.source});
      row.push_back({format_figures(values[i]), {}});
      if (!relative) continue;
      const double middle = here.seeds.empty() ? NAN : mean(here.seeds);
      if (std::isnan(first_here) && std::isfinite(middle) && std::isfinite(values[i]) && middle != 0 && values[i] != 0) {
        first_here = middle;
        first_there = values[i];
      }
      row.push_back({format_figures(middle / first_here), {}});
      row.push_back({format_figures(values[i] / first_there), {}});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace ripieno
