#include "ripieno/report/report_tables.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "ripieno/core/error.h"
#include "ripieno/report/format.h"
#include "ripieno/report/setting.h"
#include "ripieno/report/statistics.h"
#include "ripieno/report/ways.h"
#include "ripieno/report/words.h"

namespace ripieno::report {
namespace {

using Shown = std::function<std::string(double)>;

const Shown shown_figures = [](double value) { return std::isfinite(value) ? format_figures(value) : "not finite"; };
/// To three figures and at most three decimals; small numbers to three figures.
const Shown three_figures_shown = [](double value) {
  if (!std::isfinite(value)) return std::string("not finite");
  const double size = std::abs(value);
  return size >= 0.01 && size < 0.1 ? format_fixed(value, 3) : format_figures(value, 3);
};
const Shown shown_hundredths = [](double value) { return format_fixed(value, 2); };
const Shown shown_tenths = [](double value) { return format_fixed(value, 1); };
const Shown shown_whole = [](double value) { return format_fixed(value, 0); };

/// "a ± b"; without "± b" if there is no interval or nothing varies.
ReportCell estimated(const std::optional<Estimate>& number, const Shown& shown, double unit = 1) {
  if (!number) return {"–", {}};
  ReportCell cell{shown(unit * number->middle), number->source, unit * number->middle};
  if (number->seeds > 1 && std::isfinite(number->middle)) {
    cell.spread = unit * number->half;
    // With as many decimals as the mean; "" if that leaves only zeros.
    const auto point = cell.text.find('.');
    const std::string half = format_fixed(
        unit * number->half, point == std::string::npos ? 0 : static_cast<int>(cell.text.size() - point - 1));
    if (half.find_first_of("123456789") != std::string::npos) cell.text += " ± " + half;
  }
  return cell;
}

/// A cell's field of summary.json.
std::optional<Estimate> of_summary(const Cell& cell, const std::vector<std::string>& field,
                                   const std::function<std::optional<double>(const Summary&)>& value) {
  const auto seeds = seeds_of(cell, [&](const Run& run) { return value(run.summary); });
  if (seeds.empty()) return std::nullopt;
  return Estimate{mean(seeds), interval95(seeds), seeds.size(), cell.first().source(field)};
}

ReportCell counted(std::size_t number) { return {std::to_string(number), {}, static_cast<double>(number)}; }

/// The way that `cell` is compared to, and the target that its conclusion is about.
const Conclusion* conclusion_of(const Cell& cell, const std::vector<Conclusion>& conclusions) {
  for (const Conclusion& one : conclusions) {
    if (std::find(one.ways.begin(), one.ways.end(), cell.name) != one.ways.end()) return &one;
  }
  return nullptr;
}

/// The baseline as a multiple of the cell, seed by seed; in brackets where the seeds do not rank them.
ReportCell times(const Conclusion* conclusion, const std::map<std::string, Paired> Conclusion::*pairs, const Cell& cell,
                 const std::optional<Estimate>& own) {
  if (conclusion && own && cell.name == conclusion->baseline) return {"1", own->source, 1.0};
  const auto found =
      conclusion ? (conclusion->*pairs).find(cell.name) : std::map<std::string, Paired>::const_iterator{};
  if (!conclusion || !own || found == (conclusion->*pairs).end() || !found->second.is_ratio) return {"–", {}};
  const double ratio = found->second.effect;
  const std::string shown = times_shown(ratio);
  return {found->second.is_ranked ? shown : text("(", shown, ")"), own->source, ratio};
}

ReportCell name_cell(const Cell& cell) { return {cell.name, cell.first().source({"name"})}; }

/// Removes a column in which all rows are equal, and returns its value; "" if rows differ.
std::string take_alike(ReportTable* table, const std::string& title) {
  const auto at = std::find_if(table->columns.begin(), table->columns.end(),
                               [&](const auto& column) { return column.title == title; });
  if (at == table->columns.end() || table->rows.empty()) return "";
  const auto column = at - table->columns.begin();
  std::string first = table->rows[0][static_cast<std::size_t>(column)].text;
  for (const auto& row : table->rows) {
    if (row[static_cast<std::size_t>(column)].text != first) return "";
  }
  table->columns.erase(at);
  for (auto& row : table->rows) row.erase(row.begin() + column);
  return first;
}

std::vector<ReportCell> run_row(const Run& run) {
  const Summary& one = run.summary;
  Cell cell;
  cell.runs = {&run};
  const auto words = [&](const std::string& text, const std::string& field) {
    return ReportCell{text, run.source({field})};
  };
  const auto number = [&](double value, const std::string& field) {
    return ReportCell{shown_whole(value), run.source({field}), value};
  };
  return {{folder_name(run.folder) + (one.unfinished ? mark_of({&one}) : ""), run.source({"name"})},
          words(one.strategy, "strategy"),
          words(one.codec, "codec"),
          words(one.model, "model"),
          words(one.dataset, "dataset"),
          words(one.unfinished
                    ? text(one.kind, ", unfinished: ", format_short(one.epochs), one.epochs == 1 ? " epoch" : " epochs")
                    : one.kind,
                "kind"),
          number(one.world_size, "world_size"),
          number(static_cast<double>(one.seed), "seed"),
          estimated(final_accuracy(cell), shown_hundredths),
          estimated(epoch_seconds(cell), three_figures_shown),
          estimated(exposed_seconds(cell), three_figures_shown),
          estimated(busiest_bytes(cell), three_figures_shown, 1e-6),
          {shown_figures(one.images_per_second), run.source({"images_per_second"}), one.images_per_second}};
}

/// The stages of steps that a table of these runs has.
std::vector<observe::StageInfo> stages_in_steps(const std::vector<Run>& runs) {
  std::vector<observe::StageInfo> found;
  for (const observe::StageInfo& one : observe::stages) {
    double time = 0;
    for (const Run& run : runs) time += run.summary.seconds.stages[one.stage];
    if (one.kind == observe::StageKind::in_step && observe::is_shown(one, time)) found.push_back(one);
  }
  return found;
}

/// The columns of stage_cells().
std::vector<ReportTable::Column> stage_columns(const std::vector<observe::StageInfo>& stages) {
  std::vector<ReportTable::Column> columns;
  for (const observe::StageInfo& one : stages) {
    columns.push_back({text(one.stage == observe::Stage::exchange ? "waiting" : one.label, ", %")});
  }
  return columns;
}

/// These stages of a run's steps, per cent.
std::vector<ReportCell> stage_cells(const Run& run, const std::vector<observe::StageInfo>& stages) {
  const StageSeconds& seconds = run.summary.seconds.stages;
  const double step = seconds.steps();
  std::vector<ReportCell> cells;
  for (const observe::StageInfo& one : stages) {
    const double share = 100 * seconds[one.stage] / step;
    if (step <= 0) {
      cells.push_back({"–", {}});
    } else {
      cells.push_back({shown_tenths(share), run.source({"seconds", "stages", one.name}), share});
    }
  }
  return cells;
}

}  // namespace

ReportTable ways_table(const std::vector<Cell>& cells, const std::vector<Conclusion>& conclusions) {
  ReportTable table{"cells",
                    "All ways",
                    "The fastest first. Evaluation is in none of these. A number that is pressed shows its line.",
                    {{"way", true},
                     {"seeds"},
                     {"runs"},
                     {"accuracy, %"},
                     {"s an epoch"},
                     {"of it waiting for the exchange"},
                     {"MB an epoch, busiest rank"}},
                    {},
                    Tier::summary};
  const bool compares =
      std::any_of(conclusions.begin(), conclusions.end(), [](const Conclusion& one) { return !one.baseline.empty(); });
  const bool targets =
      std::any_of(conclusions.begin(), conclusions.end(), [](const Conclusion& one) { return one.target > 0; });
  if (compares) {
    table.columns.push_back({"times as fast"});
    table.columns.push_back({"times fewer bytes"});
  }
  if (targets) table.columns.push_back({"s of training to the target"});
  bool repeats = false, several = false;
  for (const Cell& cell : cells) {
    const std::size_t seeds = seeds_of(cell, [](const Run&) { return std::optional(0.0); }).size();
    repeats |= seeds < cell.runs.size();
    several |= seeds > 1;
    std::vector<ReportCell> row{name_cell(cell),
                                counted(seeds),
                                counted(cell.runs.size()),
                                estimated(final_accuracy(cell), shown_hundredths),
                                estimated(epoch_seconds(cell), three_figures_shown),
                                estimated(exposed_seconds(cell), three_figures_shown),
                                estimated(busiest_bytes(cell), three_figures_shown, 1e-6)};
    const Conclusion* own = conclusion_of(cell, conclusions);
    if (compares) {
      row.push_back(times(own, &Conclusion::faster, cell, epoch_seconds(cell)));
      row.push_back(times(own, &Conclusion::smaller, cell, busiest_bytes(cell)));
    }
    if (targets)
      row.push_back(own && own->target > 0 ? estimated(seconds_to(cell, own->target), three_figures_shown)
                                           : ReportCell{"–", {}});
    table.rows.push_back(std::move(row));
  }
  if (several)
    table.caption =
        "The fastest first. ± is half the width of the mean's 95 % interval (Student's t). Evaluation is in none of "
        "these. "
        "A number that is pressed shows the first seed's line.";
  if (compares && conclusions[0].baseline != "")
    table.caption += text(" “Times” are beside ", conclusions[0].baseline,
                          conclusions.size() > 1 ? " or the way that each group is compared with" : "",
                          ", seed by seed; in brackets where that does not rank them.");
  if (targets)
    table.caption += text(" The target", conclusions.size() > 1 ? " of the first group" : "", " is ",
                          format_fixed(conclusions[0].target, 1), " % of the test set.");
  if (repeats) {
    table.caption += " Runs of one seed count as one seed, by their mean.";
    return table;
  }
  const auto take = [&](std::ptrdiff_t column) {
    table.columns.erase(table.columns.begin() + column);
    for (auto& row : table.rows) row.erase(row.begin() + column);
  };
  take(2);  // as many as seeds
  if (!several) take(1);
  return table;
}

ReportTable more_of_ways_table(const std::vector<Cell>& cells) {
  ReportTable table{"cells-more",
                    "All ways: evaluation, loss, images a second",
                    "Evaluation: an epoch's seconds, mean over workers, and what all ranks sent for it in the whole "
                    "run. MB (10^6 bytes) "
                    "sent: of payload, for the exchange, in the whole run; by formula: what the strategy's formula "
                    "says of it (ripieno "
                    "explain STRATEGY).",
                    {{"way", true},
                     {"evaluation, s an epoch"},
                     {"evaluation, MB in all"},
                     {"loss"},
                     {"images/s"},
                     {"MB sent by all ranks"},
                     {"MB by formula"}},
                    {},
                    Tier::summary,
                    true};
  table.caption += " " + counted_steps(cells);
  using Value = std::optional<double>;
  for (const Cell& cell : cells) {
    table.rows.push_back(
        {name_cell(cell), estimated(evaluation_seconds(cell), three_figures_shown),
         estimated(evaluation_bytes(cell), three_figures_shown, 1e-6),
         estimated(of_summary(cell, {"test", "loss"},
                              [](const Summary& s) { return s.test ? Value(s.test->loss) : Value(); }),
                   shown_figures),
         estimated(of_summary(cell, {"images_per_second"}, [](const Summary& s) { return Value(s.images_per_second); }),
                   shown_figures),
         estimated(of_summary(cell, {"exchange", "payload_sent"},
                              [](const Summary& s) { return s.megabytes_sent(s.exchange_payload_sent); }),
                   shown_figures),
         estimated(of_summary(cell, {"closed_form", "payload_sent"},
                              [](const Summary& s) {
                                return s.closed_form_payload_sent
                                           ? Value(static_cast<double>(*s.closed_form_payload_sent) * s.epochs * 1e-6)
                                           : Value();
                              }),
                   shown_figures)});
  }
  return table;
}

ReportTable runs_table(const std::vector<Run>& runs, std::string* lead) {
  ReportTable table{"runs",
                    "All runs",
                    "A number that is pressed shows the line that it is from.",
                    {{"run", true},
                     {"strategy", true},
                     {"codec", true},
                     {"model", true},
                     {"data", true},
                     {"kind", true},
                     {"ranks"},
                     {"seed"},
                     {"accuracy, %"},
                     {"s an epoch"},
                     {"of it waiting for the exchange"},
                     {"MB an epoch, busiest rank"},
                     {"images/s"}},
                    {},
                    Tier::runs};
  std::vector<const Run*> all;
  for (const Run& run : runs) {
    table.rows.push_back(run_row(run));
    all.push_back(&run);
  }
  table.caption += " " + counted_steps(all);
  if (runs.size() < 2) return table;
  for (const char* title : {"strategy", "codec", "model", "data", "kind"}) {
    const std::string alike = take_alike(&table, title);
    const bool is_said = std::string(title) == "kind";  // where runs are not computed
    if (!alike.empty() && !is_said) *lead += text(", ", title, " ", alike);
  }
  return table;
}

ReportTable more_of_runs_table(const std::vector<Run>& runs) {
  ReportTable table{
      "runs-more",
      "All runs: stages, loss, evaluation",
      "Stages: per cent of the steps' time, mean over ranks. MB (10^6 bytes): of the whole run, by all ranks together; "
      "by "
      "formula: what the strategy's formula says of MB sent (ripieno explain STRATEGY).",
      {{"run", true}, {"evaluation, s an epoch"}, {"evaluation, MB"}, {"MB sent"}, {"MB by formula"}, {"loss"}},
      {},
      Tier::runs,
      true};
  const std::vector<observe::StageInfo> stages = stages_in_steps(runs);
  const std::vector<ReportTable::Column> columns = stage_columns(stages);
  table.columns.insert(table.columns.begin() + 1, columns.begin(), columns.end());
  for (const Run& run : runs) {
    const Summary& one = run.summary;
    Cell cell;
    cell.runs = {&run};
    std::vector<ReportCell> row{
        {folder_name(run.folder) + (one.unfinished ? mark_of({&one}) : ""), run.source({"name"})}};
    for (ReportCell& part : stage_cells(run, stages)) row.push_back(std::move(part));
    row.push_back(estimated(evaluation_seconds(cell), three_figures_shown));
    row.push_back(estimated(evaluation_bytes(cell), three_figures_shown, 1e-6));
    std::optional<Estimate> sent, formula, loss;
    if (const auto known = one.megabytes_sent(one.exchange_payload_sent))
      sent = Estimate{*known, 0, 1, run.source({"exchange", "payload_sent"})};
    if (one.closed_form_payload_sent) {
      formula = Estimate{static_cast<double>(*one.closed_form_payload_sent) * one.epochs, 0, 1,
                         run.source({"closed_form", "payload_sent"})};
    }
    if (one.test && one.test->loss) loss = Estimate{*one.test->loss, 0, 1, run.source({"test", "loss"})};
    row.push_back(estimated(sent, shown_figures));
    row.push_back(estimated(formula, shown_figures, 1e-6));
    row.push_back(estimated(loss, shown_figures));
    table.rows.push_back(std::move(row));
  }
  return table;
}

ReportTable places_table(const std::vector<Run>& runs) {
  ReportTable table{"runs-places",
                    "All runs: where",
                    "How many ranks ran on which host, what started them, and over what they exchanged.",
                    {{"run", true}, {"ranks", true}, {"started by", true}, {"over", true}},
                    {},
                    Tier::runs,
                    true};
  for (const Run& run : runs) {
    const Summary& one = run.summary;
    const auto shown = [](const std::string& words) { return words.empty() ? "–" : words; };
    const auto kind = run.settings.find("transport.kind");
    const std::string over = run.own_loop                 ? link_of(run)
                             : kind == run.settings.end() ? ""
                                                          : kind->second.substr(1, kind->second.size() - 2);
    table.rows.push_back({{folder_name(run.folder), run.source({"name"})},
                          {shown(one.hosts()), run.source({"ranks", "0", "host"})},
                          {shown(one.launcher), run.source({"launcher"})},
                          {shown(over), {}}});
  }
  return table;
}

}  // namespace ripieno::report
