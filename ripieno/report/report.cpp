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

ReportTable runs_table(const std::vector<Run>& runs) {
  ReportTable table{"runs", "Runs", "Every run; each number links to the line it is from. Exchange: what compute waited for.", {}, {}};
  for (const char* title : {"run", "strategy", "model", "data"}) table.columns.push_back({title, true});
  for (const char* title : {"ranks", "codec", "seed", "accuracy, %", "loss", "s an epoch", "images/s", "read, %", "forward, %", "backward, %",
                            "exchange, %", "optimise, %", "MB sent", "by formula, MB", "figures"}) {
    table.columns.push_back({title, std::string(title) == "codec" || std::string(title) == "figures"});
  }
  for (const Run& run : runs) {
    const Summary& one = run.summary;
    std::vector<ReportCell> row;
    const auto add = [&](const std::string& text, const std::vector<std::string>& field) { row.push_back({text, run.source(field)}); };
    add(folder_name(run.folder), {"name"});
    add(one.strategy, {"strategy"});
    add(one.model, {"model"});
    add(one.dataset, {"dataset"});
    add(std::to_string(one.world_size), {"world_size"});
    add(one.codec, {"codec"});
    add(std::to_string(one.seed), {"seed"});
    add(one.test ? format_fixed(100 * one.test->accuracy, 2) : "–", {"test", "accuracy"});
    add(one.test ? format_figures(one.test->loss) : "–", {"test", "loss"});
    add(one.seconds.epoch.empty() ? "–" : format_figures(mean(one.seconds.epoch)), {"seconds", "epoch"});
    add(format_figures(one.images_per_second), {"images_per_second"});
    const double step = one.seconds.stages.steps();
    const std::pair<const char*, double> parts[] = {{"read", one.seconds.stages.read},
                                                    {"forward", one.seconds.stages.forward},
                                                    {"backward", one.seconds.stages.backward},
                                                    {"exchange", one.seconds.stages.exchange},
                                                    {"optimise", one.seconds.stages.optimise}};
    for (const auto& [name, seconds] : parts) add(step > 0 ? format_fixed(100 * seconds / step, 1) : "–", {"seconds", "stages", name});
    add(format_figures(static_cast<double>(one.exchange_payload_sent) * 1e-6), {"exchange", "payload_sent"});
    const auto& formula = one.closed_form_payload_sent;
    add(formula ? format_figures(static_cast<double>(*formula) * one.epochs * 1e-6) : "–", {"closed_form", "payload_sent"});
    add(one.kind, {"kind"});
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// "a ± b" over seeds.
ReportCell mean_cell(const Cell& cell, const std::vector<std::string>& field, const std::function<std::optional<double>(const Summary&)>& value) {
  std::vector<double> all;
  for (const Run* run : cell) {
    if (const auto one = value(run->summary)) all.push_back(*one);
  }
  if (all.empty()) return {"–", {}};
  const std::string middle = format_figures(mean(all));
  return {all.size() > 1 ? middle + " ± " + format_figures(interval95(all)) : middle, cell[0]->source(field)};
}

ReportTable cells_table(const std::vector<Cell>& cells) {
  ReportTable table{"cells", "Means over seeds", "± half the width of the 95 % interval (Student's t). A number links to the first seed's.",
                    {{"cell", true}, {"seeds"}, {"accuracy, %"}, {"s an epoch"}, {"images/s"}, {"MB sent"}}, {}};
  const auto names = cell_names(cells);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    using Value = std::optional<double>;
    table.rows.push_back(
        {{names[i], cell[0]->source({"name"})},
         {std::to_string(cell.size()), {}},
         mean_cell(cell, {"test", "accuracy"}, [](const Summary& s) { return s.test ? Value(100 * s.test->accuracy) : Value(); }),
         mean_cell(cell, {"seconds", "epoch"}, [](const Summary& s) { return s.seconds.epoch.empty() ? Value() : Value(mean(s.seconds.epoch)); }),
         mean_cell(cell, {"images_per_second"}, [](const Summary& s) { return Value(s.images_per_second); }),
         mean_cell(cell, {"exchange", "payload_sent"}, [](const Summary& s) { return Value(static_cast<double>(s.exchange_payload_sent) * 1e-6); })});
  }
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
