// The figures of the first screen: each way's time and bytes per epoch, and how soon it learns.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "ripieno/core/error.h"
#include "ripieno/report/figures.h"
#include "ripieno/report/pairing.h"
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

/// Half the length of a bar's whiskers: the interval of its difference from the baseline's, on the side that faces it.
double half_beside(const Estimate& own, const std::optional<Estimate>& base) {
  if (!base) return own.half;
  const Paired pair = paired(own, *base, By::ratio);
  if (!pair.is_ratio) return pair.half;
  return own.middle * (pair.effect < 1 ? std::expm1(pair.half) : -std::expm1(-pair.half));
}

/// What the caption says of whiskers; "" if no bar has any.
std::string about_whiskers(Series& series, const Cell* baseline) {
  if (std::any_of(series.spread.begin(), series.spread.end(), [](double half) { return half > 0; }))
    return baseline ? text(" Whiskers: 95 % interval of the difference from ", baseline->name, ", seed by seed.")
                    : " Whiskers: 95 % interval over seeds.";
  series.spread.clear();
  return "";
}

}  // namespace

Figure epoch_figure(const std::vector<Cell>& all, const Cell* baseline) {
  std::vector<Cell> cells;
  std::copy_if(all.begin(), all.end(), std::back_inserter(cells),
               [](const Cell& cell) { return epoch_seconds(cell).has_value(); });
  Figure figure = summary_figure("epoch", "Seconds an epoch", "Grey: computing. In colour: waiting for the exchange.",
                                 "s an epoch", cells);
  if (cells.empty()) return figure;
  Series computing{"computing", {}, {}, {}, {}, {}}, waiting{"waiting for the exchange", {}, {}, {}, {}, {}};
  waiting.by_category = true;
  const std::optional<Estimate> base = baseline ? epoch_seconds(*baseline) : std::nullopt;
  for (const Cell& cell : cells) {
    const Estimate whole = *epoch_seconds(cell),
                   exposed = exposed_seconds(cell).value_or(Estimate{0, 0, 1, whole.source});
    const double waited = std::min(exposed.middle, whole.middle);
    computing.y.push_back(whole.middle - waited);
    computing.sources.push_back(whole.source);
    waiting.y.push_back(waited);
    waiting.spread.push_back(half_beside(whole, base));
    waiting.sources.push_back(exposed.source);
  }
  figure.caption += about_whiskers(waiting, baseline);
  figure.series = {computing, waiting};
  return figure;
}

Figure sent_figure(const std::vector<Cell>& all, const Cell* baseline) {
  std::vector<Cell> cells;
  std::copy_if(all.begin(), all.end(), std::back_inserter(cells),
               [](const Cell& cell) { return busiest_bytes(cell).has_value(); });
  Figure figure = summary_figure("sent", "MB an epoch", "Sent by the busiest rank.", "MB an epoch", cells);
  if (cells.empty()) return figure;
  Series sent{"sent by the busiest rank", {}, {}, {}, {}, {}};
  sent.by_category = true;
  const std::optional<Estimate> base = baseline ? busiest_bytes(*baseline) : std::nullopt;
  for (const Cell& cell : cells) {
    const Estimate bytes = *busiest_bytes(cell);
    sent.y.push_back(1e-6 * bytes.middle);
    sent.spread.push_back(1e-6 * half_beside(bytes, base));
    sent.sources.push_back(bytes.source);
  }
  figure.caption += about_whiskers(sent, baseline);
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
