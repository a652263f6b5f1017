// The figures of the first screen: each way's time and bytes per epoch, and how soon it learns.
#include <algorithm>
#include <iterator>

#include "ripieno/report/figures.h"
#include "ripieno/report/ways.h"

namespace ripieno::report {
namespace {

Figure summary_figure(const char* id, const char* title, const char* caption, const char* unit,
                      const std::vector<Cell>& cells) {
  Figure figure{id, title, caption, Form::stacked_bars, {"way"}, unit, {}, {}};
  figure.tier = Tier::summary;
  for (const Cell& cell : cells) {
    figure.categories.push_back(cell.name);
    figure.category_looks.push_back(cell.look);
  }
  return figure;
}

/// Whiskers only if there is an interval.
void add_bar(Series& series, double length, const Estimate& whole) {
  series.y.push_back(length);
  series.spread.push_back(whole.half);
  series.sources.push_back(whole.source);
}

void without_empty_spread(Series& series) {
  if (std::all_of(series.spread.begin(), series.spread.end(), [](double half) { return half == 0; }))
    series.spread.clear();
}

}  // namespace

Figure epoch_figure(const std::vector<Cell>& all) {
  std::vector<Cell> cells;
  std::copy_if(all.begin(), all.end(), std::back_inserter(cells),
               [](const Cell& cell) { return epoch_seconds(cell).has_value(); });
  Figure figure = summary_figure("epoch", "Seconds an epoch", "Grey: computing. In colour: waiting for the exchange.",
                                 "s an epoch", cells);
  if (cells.empty()) return figure;
  Series computing{"computing", {}, {}, {}, {}, {}}, waiting{"waiting for the exchange", {}, {}, {}, {}, {}};
  waiting.by_category = true;
  for (const Cell& cell : cells) {
    const Estimate whole = *epoch_seconds(cell),
                   exposed = exposed_seconds(cell).value_or(Estimate{0, 0, 1, whole.source});
    const double waited = std::min(exposed.middle, whole.middle);
    computing.y.push_back(whole.middle - waited);
    computing.sources.push_back(whole.source);
    add_bar(waiting, waited, {waited, whole.half, whole.seeds, exposed.source});
  }
  without_empty_spread(waiting);
  figure.series = {computing, waiting};
  return figure;
}

Figure sent_figure(const std::vector<Cell>& all) {
  std::vector<Cell> cells;
  std::copy_if(all.begin(), all.end(), std::back_inserter(cells),
               [](const Cell& cell) { return busiest_bytes(cell).has_value(); });
  Figure figure = summary_figure("sent", "MB an epoch", "Sent by the busiest rank.", "MB an epoch", cells);
  if (cells.empty()) return figure;
  Series sent{"sent by the busiest rank", {}, {}, {}, {}, {}};
  sent.by_category = true;
  for (const Cell& cell : cells) {
    const Estimate bytes = *busiest_bytes(cell);
    add_bar(sent, 1e-6 * bytes.middle, {1e-6 * bytes.middle, 1e-6 * bytes.half, bytes.seeds, bytes.source});
  }
  without_empty_spread(sent);
  const bool any = std::any_of(sent.y.begin(), sent.y.end(), [](double megabytes) { return megabytes > 0; });
  if (any) figure.series = {sent};
  return figure;
}

Figure progress_figure(const std::vector<Cell>& cells) {
  Figure figure = accuracy_figure(cells);
  figure.id = "progress";
  figure.title = "Accuracy over seconds of training";
  figure.caption = "At the end of each epoch, evaluation left out.";
  figure.tier = Tier::summary;
  figure.x_titles = {figure.x_titles.at(1)};
  for (Series& series : figure.series) series.x = {series.x.at(1)};
  return figure;
}

}  // namespace ripieno::report
