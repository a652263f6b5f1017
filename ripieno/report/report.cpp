// The parts of a report of runs.
#include "ripieno/report/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "ripieno/core/error.h"
#include "ripieno/report/figures.h"
#include "ripieno/report/looks.h"
#include "ripieno/report/measures.h"
#include "ripieno/report/report_tables.h"
#include "ripieno/report/ways.h"

namespace ripieno::report {
namespace {

constexpr std::size_t most_pictured = 14;     // of a figure of the first screen
constexpr std::size_t most_points = 100'000;  // of figures of single runs, besides each cell's first run

/// The fastest first; cells without timed epochs last.
void sort_by_time(std::vector<Cell>& cells) {
  const auto seconds = [](const Cell& cell) {
    return epoch_seconds(cell).value_or(Estimate{INFINITY, 0, 0, {}}).middle;
  };
  std::stable_sort(cells.begin(), cells.end(), [&](const Cell& a, const Cell& b) { return seconds(a) < seconds(b); });
}

bool contains_name(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The ways on the first screen, of the first conclusion's model and data: those that its sentences name, then the
/// fastest of its ways, then the fastest of the others, as far as there is room.
std::vector<Cell> pictured(const std::vector<Cell>& all, const std::vector<Conclusion>& conclusions) {
  const Conclusion& first = conclusions.at(0);
  std::vector<std::string> named;
  for (const Sentence& sentence : first.sentences) {
    for (const Piece& piece : sentence.pieces) {
      if (piece.is_name) named.push_back(piece.text);
    }
  }
  const auto is_about = [&](const Cell& cell) { return first.ways.empty() || contains_name(first.ways, cell.name); };
  const auto is_named = [&](const Cell& cell) {
    return is_about(cell) && (contains_name(named, cell.name) || contains_name(named, cell.first().summary.name));
  };
  const Summary& like = std::find_if(all.begin(), all.end(), is_about)->first().summary;
  std::vector<bool> taken(all.size());
  std::size_t room = most_pictured;
  for (const int turn : {0, 1, 2}) {
    for (std::size_t i = 0; i < all.size() && room > 0; ++i) {
      const Summary& one = all[i].first().summary;
      const bool is_alike = one.model == like.model && one.dataset == like.dataset && one.kind == like.kind;
      if (taken[i] || (turn == 0 && !is_named(all[i])) || (turn == 1 && !is_about(all[i])) || !is_alike) continue;
      taken[i] = true;
      --room;
    }
  }
  std::vector<Cell> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (taken[i]) kept.push_back(all[i]);
  }
  return kept;
}

std::string lead_of(const std::vector<Run>& runs, std::size_t cells) {
  std::string lead = text(runs.size(), runs.size() == 1 ? " run" : " runs");
  if (cells < runs.size()) lead += text(" of ", cells, cells == 1 ? " way" : " ways");
  const bool alike =
      std::all_of(runs.begin(), runs.end(), [&](const Run& run) { return run.summary.kind == runs[0].summary.kind; });
  const std::array<const char*, 3> kinds[] = {
      {"replayed", "=", "; replayed: compute times measured once and waited for, exchanges real, nothing learnt"},
      {"simulated", "~", "; simulated: times are virtual"},
      {"projected", "~=", "; projected: compute times measured once, all else in virtual time, nothing learnt"}};
  for (const auto& [kind, kind_mark, what] : kinds) {
    if (std::none_of(runs.begin(), runs.end(), [kind = kind](const Run& run) { return run.summary.kind == kind; }))
      continue;
    lead += what;
    if (!alike) lead += text(" (", kind_mark, ")");
  }
  if (std::any_of(runs.begin(), runs.end(), [](const Run& run) { return run.summary.unfinished; })) {
    lead += "; unfinished (…): as far as they came";
  }
  for (const Run& run : runs) {
    if (run.summary.not_finite) lead += text("; ", folder_name(run.folder), ": ", described(*run.summary.not_finite));
    if (const std::string losses = run.summary.losses(); !losses.empty())
      lead += text("; ", folder_name(run.folder), ": ", losses);
  }
  for (const Run& run : runs) {
    if (run.summary.kind != "replayed" || !run.summary.is_crowded()) continue;
    lead += "; the machine's CPU was above 80 % in replayed runs (!), whose times do not hold then";
    break;
  }
  return lead;
}

void add(Report& report, Figure figure, bool folded = false) {
  if (figure.series.empty()) return;
  figure.is_folded = folded;
  report.figures.push_back(std::move(figure));
}

void add_comparisons(Report& report, const std::vector<Cell>& all) {
  constexpr bool folded = true;
  add(report, accuracy_figure(all));
  add(report, stages_figure(all));
  add(report, exchange_figure(all));
  add(report, bytes_figure(all));
  add(report, throughput_figure(all));
  add(report, speedup_figure(all));
  add(report, efficiency_figure(all));
  add(report, loss_figure(all));
  add(report, staleness_figure(all));
  if (all.size() > 1) {
    add(report, measure_figure(all, "accuracy", "Accuracy at the end"), folded);
    add(report, measure_figure(all, "mb_sent", "Sent in the whole run, by all ranks together"), folded);
  }
  add(report, cpu_means_figure(all), folded);
  add(report, network_means_figure(all), folded);
  add(report, network_timeline_figure(all), folded);
}

Look look_of(const Run& run, const std::vector<Cell>& all) {
  for (const Cell& cell : all) {
    if (std::find(cell.runs.begin(), cell.runs.end(), &run) != cell.runs.end()) return cell.look;
  }
  return {};
}

/// A run's figures use its way's colour, with shades for ranks; figures of stages use it for waiting.
void color_ranks(Figure& figure, const Look& look) {
  if (figure.form == Form::stacked_bars) {
    if (!figure.series.empty()) figure.series.back().look = look;
    return;
  }
  int rank = 0;
  for (Series& series : figure.series) {
    if (!series.name.starts_with("rank")) continue;
    series.look = {look.colour, rank % dashes, rank / dashes % markers};
    ++rank;
  }
}

/// Figures of each cell's first run, then of others while there is room.
void add_runs(Report& report, const std::vector<Run>& runs, const std::vector<Cell>& all) {
  const auto is_first = [&](const Run& run) {
    return std::any_of(all.begin(), all.end(), [&](const Cell& cell) { return cell.runs[0] == &run; });
  };
  std::size_t points = 0, number = 0;
  for (const Run& run : runs) {
    ++number;
    const bool is_virtual = run.summary.kind == "simulated" || run.summary.kind == "projected";  // all steps are alike
    std::vector<Figure> own{
        is_virtual ? Figure() : blocks_figure(run), cpu_figure(run),     network_figure(run),
        network_figure(run, Direction::received),   packets_figure(run), packets_figure(run, Direction::received)};
    std::size_t more = 0;
    for (const Figure& figure : own) {
      for (const Series& series : figure.series) more += series.y.size();
    }
    if (!is_first(run)) {
      if (points + more > most_points) continue;
      points += more;
    }
    const Look look = look_of(run, all);
    for (Figure& figure : own) {
      color_ranks(figure, look);
      figure.id += text("-", number);
      figure.tier = Tier::runs;
      figure.run = folder_name(run.folder);
      add(report, std::move(figure));
    }
  }
}

MeasuredRun measured(const Run& run) {
  MeasuredRun found{folder_name(run.folder), run.summary.name, run.summary.seed, {}};
  for (const Measure& one : measures()) {
    if (const auto value = one.of(run)) found.measures.emplace_back(one.name, *value);
  }
  return found;
}

}  // namespace

Report report_of(const std::vector<Run>& runs, const std::string& title) {
  auto all = cells(runs);
  sort_by_time(all);
  Report report;
  report.title = title;
  report.conclusions = conclusions(all);
  report.lead = lead_of(runs, all.size());
  const auto first = pictured(all, report.conclusions);
  const auto base = std::find_if(all.begin(), all.end(), [&](const Cell& cell) {
    return !report.conclusions.empty() && cell.name == report.conclusions[0].baseline;
  });
  const Cell* baseline = base == all.end() ? nullptr : &*base;
  for (const Figure& figure : {epoch_figure(first, baseline), sent_figure(first, baseline), progress_figure(first)})
    add(report, figure);
  if (first.size() < all.size() && !report.figures.empty())
    report.lead += text("; the picture shows ", first.size(), " of ", all.size(), " ways");
  if (all.size() > 1 || all.size() < runs.size()) {
    report.tables.push_back(ways_table(all, report.conclusions));
    report.tables.push_back(more_of_ways_table(all));
  }
  report.tables.push_back(runs_table(runs, &report.lead));
  report.tables.push_back(more_of_runs_table(runs));
  report.tables.push_back(places_table(runs));
  add_comparisons(report, all);
  add_runs(report, runs, all);
  std::transform(runs.begin(), runs.end(), std::back_inserter(report.measured), measured);
  return report;
}

}  // namespace ripieno::report
