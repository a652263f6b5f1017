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

/// One number per seed.
Ours ours(const Measure& measure, const Cell& cell) {
  Ours found;
  std::vector<SeedNumber> values;
  for (const Run* run : cell.runs) {
    const auto value = measure.of(*run);
    if (!value) continue;
    values.emplace_back(run->summary.seed, *value);
    found.runs.push_back(&run->summary);
    if (!found.source) found.source = run->source(measure.field);
  }
  found.seeds = numbers_of(by_seed(values));
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

/// Fills a table's rows in turn.
class Rows {
 public:
  Rows(const Published& published, bool relative, ReportTable* table)
      : published_(published), relative_(relative), table_(table) {}

  /// `cell`: as it was run here; nullptr: it was not.
  void add(const std::string& name, const Cell* cell, const std::vector<double>& there) {
    std::vector<ReportCell> row{{name, {}}};
    for (std::size_t i = 0; i < there.size(); ++i) {
      const Ours here = cell ? ours(find_measure(published_.measures[i]), *cell) : Ours{};
      row.push_back(shown(here));
      row.push_back(plain_cell(there[i]));
      if (!relative_) continue;
      const double middle = here.seeds.empty() ? NAN : mean(here.seeds);
      if (std::isnan(first_here_) && std::isfinite(middle) && std::isfinite(there[i]) && middle != 0 && there[i] != 0) {
        first_here_ = middle;
        first_there_ = there[i];
      }
      row.push_back(plain_cell(middle / first_here_));
      row.push_back(plain_cell(there[i] / first_there_));
    }
    table_->rows.push_back(std::move(row));
  }

 private:
  const Published& published_;
  bool relative_;
  ReportTable* table_;
  double first_here_ = NAN, first_there_ = NAN;
};

bool is_of(const Cell& cell, const std::string& name) { return cell.first().summary.name == name; }

ReportTable published_table(const Published& published, const std::vector<Cell>& cells, const std::string& id) {
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
  Rows rows(published, relative, &table);
  for (const auto& [name, values] : published.rows) {
    require(values.size() == published.measures.size(), published.title, ": ", name, " has ", values.size(),
            " values for ", published.measures.size(), " measures");
    bool was_run = false;
    for (const Cell& cell : cells) {
      if (!is_of(cell, name)) continue;
      was_run = true;
      rows.add(cell.name, &cell, values);
    }
    if (!was_run) rows.add(name, nullptr, values);
  }
  return table;
}

}  // namespace

std::vector<ReportTable> published_tables(const std::vector<Published>& published, const std::vector<Run>& runs) {
  const std::vector<Cell> all = cells(runs);
  std::vector<ReportTable> tables;
  for (const Published& one : published) {
    const bool was_run = std::any_of(one.rows.begin(), one.rows.end(), [&all](const auto& row) {
      return std::any_of(all.begin(), all.end(), [&row](const Cell& cell) { return is_of(cell, row.first); });
    });
    if (was_run) tables.push_back(published_table(one, all, text("published-", tables.size() + 1)));
  }
  return tables;
}

}  // namespace ripieno::report
