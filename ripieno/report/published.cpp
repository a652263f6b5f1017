#include "ripieno/report/published.h"

#include <algorithm>
#include <cmath>

#include "ripieno/core/error.h"
#include "ripieno/report/format.h"
#include "ripieno/report/measures.h"
#include "ripieno/report/statistics.h"

namespace ripieno::report {
namespace {

struct Ours {
  std::vector<double> seeds;
  std::vector<const Summary*> runs;
  std::optional<Source> source;
};

/// One number per seed, of all runs with that name.
Ours ours(const Measure& measure, const std::string& cell, const std::vector<Run>& runs) {
  Ours found;
  std::vector<std::pair<std::int64_t, double>> values;
  for (const Run& run : runs) {
    if (run.summary.name != cell) continue;
    const auto value = measure.of(run);
    if (!value) continue;
    values.emplace_back(run.summary.seed, *value);
    found.runs.push_back(&run.summary);
    if (!found.source) found.source = run.source(measure.field);
  }
  found.seeds = by_seed(values);
  return found;
}

ReportCell shown(const Ours& here) {
  if (here.seeds.empty()) return {"–", here.source};
  const double middle = mean(here.seeds);
  const std::string mark = mark_of(here.runs);
  if (!std::isfinite(middle)) return {"not finite" + mark, here.source, middle};
  if (here.seeds.size() == 1) return {format_figures(middle) + mark, here.source, middle};
  const double half = interval95(here.seeds);
  return {format_figures(middle) + (half > 0 ? " ± " + format_figures(half) : "") + mark, here.source, middle, half};
}

/// NaN: there is none.
ReportCell plain_cell(double value) {
  if (std::isnan(value)) return {"–", {}};
  return {format_figures(value), {}, value};
}

ReportTable published_table(const Published& published, const std::vector<Run>& runs, const std::string& id) {
  ReportTable table{id, published.title, published.note, {{"way", true}}, {}};
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
    require(values.size() == published.measures.size(), published.title, ": ", cell, " has ", values.size(),
            " values for ", published.measures.size(), " measures");
    std::vector<ReportCell> row{{cell, {}}};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Ours here = ours(find_measure(published.measures[i]), cell, runs);
      row.push_back(shown(here));
      row.push_back(plain_cell(values[i]));
      if (!relative) continue;
      const double middle = here.seeds.empty() ? NAN : mean(here.seeds);
      if (std::isnan(first_here) && std::isfinite(middle) && std::isfinite(values[i]) && middle != 0 &&
          values[i] != 0) {
        first_here = middle;
        first_there = values[i];
      }
      row.push_back(plain_cell(middle / first_here));
      row.push_back(plain_cell(values[i] / first_there));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

std::vector<ReportTable> published_tables(const std::vector<Published>& published, const std::vector<Run>& runs) {
  std::vector<ReportTable> tables;
  for (const Published& one : published) {
    const bool was_run = std::any_of(one.rows.begin(), one.rows.end(), [&runs](const auto& row) {
      return std::any_of(runs.begin(), runs.end(), [&row](const Run& run) { return run.summary.name == row.first; });
    });
    if (was_run) tables.push_back(published_table(one, runs, text("published-", tables.size() + 1)));
  }
  return tables;
}

}  // namespace ripieno::report
