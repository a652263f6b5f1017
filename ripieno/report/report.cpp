#include "ripieno/report/report.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "ripieno/core/error.h"
#include "ripieno/report/figures.h"
#include "ripieno/report/format.h"
#include "ripieno/report/statistics.h"

namespace ripieno {
namespace {

/// What several runs have all alike needs no column: it is said once.
void say_once(ReportTable& table, std::string& lead) {
  for (std::size_t column = table.columns.size(); table.rows.size() > 1 && column-- > 1;) {
    const std::string title = table.columns[column].title, &first = table.rows[0][column].text;
    if (title != "strategy" && title != "model" && title != "data" && title != "codec" && title != "figures") continue;
    const bool alike = std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return row[column].text == first; });
    if (!alike) continue;
    lead += text(", ", title, " ", first);
    table.columns.erase(table.columns.begin() + static_cast<std::ptrdiff_t>(column));
    for (auto& row : table.rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
  }
}

std::vector<ReportCell> run_row(const Run& run) {
  const Summary& one = run.summary;
  std::vector<ReportCell> row;
  using Value = std::optional<double>;
  const auto add = [&](const std::string& text, const std::vector<std::string>& field) { row.push_back({text, run.source(field)}); };
  const auto number = [&](Value value, const auto& shown, const std::vector<std::string>& field) {
    row.push_back({value ? shown(*value) : "–", run.source(field), value});
  };
  const auto whole = [](double value) { return format_fixed(value, 0); };
  add(folder_name(run.folder) + (one.unfinished ? mark_of({&one}) : ""), {"name"});
  add(one.strategy, {"strategy"});
  add(one.model, {"model"});
  add(one.dataset, {"dataset"});
  number(one.world_size, whole, {"world_size"});
  add(one.codec, {"codec"});
  number(static_cast<double>(one.seed), whole, {"seed"});
  number(one.test ? Value(100 * one.test->accuracy) : Value(), [](double value) { return format_fixed(value, 2); }, {"test", "accuracy"});
  number(one.test ? Value(one.test->loss) : Value(), [](double value) { return std::isfinite(value) ? format_figures(value) : text("not finite"); }, {"test", "loss"});
  number(one.seconds.epoch.empty() ? Value() : Value(mean(one.seconds.epoch)), format_figures, {"seconds", "epoch"});
  number(one.images_per_second, format_figures, {"images_per_second"});
  const StageSeconds& stages = one.seconds.stages;
  const double step = stages.steps();
  const std::pair<const char*, double> parts[] = {{"read", stages.read}, {"forward", stages.forward}, {"backward", stages.backward},
                                                  {"exchange", stages.exchange}, {"optimise", stages.optimise}};
  for (const auto& [name, seconds] : parts) {
    number(step > 0 ? Value(100 * seconds / step) : Value(), [](double value) { return format_fixed(value, 1); }, {"seconds", "stages", name});
  }
  number(static_cast<double>(one.exchange_payload_sent) * 1e-6, format_figures, {"exchange", "payload_sent"});
  const auto& formula = one.closed_form_payload_sent;
  number(formula ? Value(static_cast<double>(*formula) * one.epochs * 1e-6) : Value(), format_figures, {"closed_form", "payload_sent"});
  const auto busiest = std::max_element(one.ranks.begin(), one.ranks.end(), [](const RankSummary& a, const RankSummary& b) { return a.exchange_payload_sent < b.exchange_payload_sent; });
  number(one.ranks.empty() ? Value() : Value(static_cast<double>(busiest->exchange_payload_sent) * 1e-6), format_figures,
         {"ranks", std::to_string(busiest - one.ranks.begin()), "exchange", "payload_sent"});
  add(one.unfinished ? text(one.kind, ", unfinished: ", one.epochs, one.epochs == 1 ? " epoch" : " epochs") : one.kind, {"kind"});
  return row;
}

ReportTable runs_table(const std::vector<Run>& runs) {
  ReportTable table{"runs", "Runs", "Every run; each number links to the line it is from. Exchange: what compute waited for.", {}, {}};
  for (const char* title : {"run", "strategy", "model", "data"}) table.columns.push_back({title, true});
  for (const char* title : {"ranks", "codec", "seed", "accuracy, %", "loss", "s an epoch", "images/s", "read, %", "forward, %", "backward, %",
                            "exchange, %", "optimise, %", "MB sent", "by formula, MB", "MB by the busiest", "figures"}) {
    table.columns.push_back({title, std::string(title) == "codec" || std::string(title) == "figures"});
  }
  for (const Run& run : runs) table.rows.push_back(run_row(run));
  return table;
}

/// "a ± b" over seeds.
ReportCell mean_cell(const Cell& cell, const std::vector<std::string>& field, const std::function<std::optional<double>(const Summary&)>& value) {
  const std::vector<double> all = seeds_of(cell, [&](const Run& run) { return value(run.summary); });
  if (all.empty()) return {"–", {}};
  const double middle = mean(all);
  if (!std::isfinite(middle)) return {"not finite", cell[0]->source(field), middle};
  if (all.size() == 1) return {format_figures(middle), cell[0]->source(field), middle};
  return {format_figures(middle) + " ± " + format_figures(interval95(all)), cell[0]->source(field), middle, interval95(all)};
}

ReportTable cells_table(const std::vector<Cell>& cells) {
  ReportTable table{"cells", "Means over seeds", "± half the width of the 95 % interval (Student's t). A number links to the first seed's.",
                    {{"cell", true}, {"seeds"}, {"runs"}, {"accuracy, %"}, {"s an epoch"}, {"images/s"}, {"MB sent"}}, {}};
  const auto names = cell_names(cells);
  bool repeats = false;
  const auto count = [](std::size_t number) { return ReportCell{std::to_string(number), {}, static_cast<double>(number)}; };
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    using Value = std::optional<double>;
    const std::size_t seeds = seeds_of(cell, [](const Run&) { return Value(0); }).size();
    repeats |= seeds < cell.size();
    table.rows.push_back(
        {{names[i], cell[0]->source({"name"})},
         count(seeds),
         count(cell.size()),
         mean_cell(cell, {"test", "accuracy"}, [](const Summary& s) { return s.test ? Value(100 * s.test->accuracy) : Value(); }),
         mean_cell(cell, {"seconds", "epoch"}, [](const Summary& s) { return s.seconds.epoch.empty() ? Value() : Value(mean(s.seconds.epoch)); }),
         mean_cell(cell, {"images_per_second"}, [](const Summary& s) { return Value(s.images_per_second); }),
         mean_cell(cell, {"exchange", "payload_sent"}, [](const Summary& s) { return Value(static_cast<double>(s.exchange_payload_sent) * 1e-6); })});
  }
  if (repeats) {
    table.caption += " Runs of one seed count as one seed, by their mean.";
    return table;
  }
  table.columns.erase(table.columns.begin() + 2);  // as many as seeds
  for (auto& row : table.rows) row.erase(row.begin() + 2);
  return table;
}

}  // namespace

Report report_of(const std::vector<Run>& runs, const std::string& title) {
  const auto all = cells(runs);
  Report report;
  report.title = title;
  report.lead = text(runs.size(), runs.size() == 1 ? " run" : " runs", " in ", all.size(), all.size() == 1 ? " cell" : " cells");
  const std::pair<const char*, const char*> kinds[] = {
      {"replayed", "; some replayed (=): compute times measured once and waited for, exchanges real, nothing learnt"},
      {"simulated", "; some simulated (~): their times are virtual"},
      {"projected", "; some projected (~=): compute times measured once, all else in virtual time, nothing learnt"}};
  for (const auto& [kind, what] : kinds) {
    if (std::any_of(runs.begin(), runs.end(), [kind = kind](const Run& run) { return run.summary.kind == kind; })) report.lead += what;
  }
  if (std::any_of(runs.begin(), runs.end(), [](const Run& run) { return run.summary.unfinished; })) {
    report.lead += "; some have not finished (…): as far as they came";
  }
  for (const Run& run : runs) {
    if (run.summary.not_finite) report.lead += text("; ", folder_name(run.folder), ": ", described(*run.summary.not_finite));
  }
  for (const Run& run : runs) {
    if (run.summary.kind != "replayed" || !run.summary.is_crowded()) continue;
    report.lead += "; the machine's CPU was above 80 % in replayed runs (!), whose times do not hold then";
    break;
  }
  report.tables.push_back(runs_table(runs));
  say_once(report.tables.back(), report.lead);
  if (all.size() < runs.size()) report.tables.push_back(cells_table(all));
  const auto add = [&](Figure figure) {
    if (!figure.series.empty()) report.figures.push_back(std::move(figure));
  };
  add(accuracy_figure(all));
  add(loss_figure(all));
  add(bytes_figure(all));
  if (all.size() > 1) {
    add(measure_figure(all, "accuracy", "Accuracy at the end"));
    add(measure_figure(all, "s_epoch", "Time of an epoch"));
    add(measure_figure(all, "mb_sent", "Sent in all"));
  }
  add(stages_figure(all));
  add(exchange_figure(all));
  add(throughput_figure(all));
  add(speedup_figure(all));
  add(efficiency_figure(all));
  add(staleness_figure(all));
  add(cpu_means_figure(all));
  add(network_means_figure(all));
  add(network_timeline_figure(all));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Run& run = *all[i][0];
    const bool is_virtual = run.summary.kind == "simulated" || run.summary.kind == "projected";  // a step is like the other
    for (Figure figure : {is_virtual ? Figure() : blocks_figure(run), cpu_figure(run), network_figure(run), packets_figure(run)}) {
      figure.id += text("-", i + 1);
      add(std::move(figure));
    }
  }
  return report;
}

}  // namespace ripieno
