#include "apps/ripieno/advise_recipe.h"

#include <cmath>

#include "apps/ripieno/job.h"
#include "ripieno/report/format.h"

namespace ripieno::program {
namespace {

/// Images whose gradients make a step of the optimiser.
double images_of_step(const Settings& settings) {
  const strategy::StrategyInfo& info = strategy_of(settings);
  const double passes = info.traits.sums_passes ? plan_of(settings).passes : 1;
  return passes * batch_of(settings);
}

/// Returns a comment; "" if nothing was changed.
std::string keep_link(Settings* best, const StatedLink& link, AskedLink asked) {
  if ((*best)->workers == 1 || !(asked.rate || asked.latency)) return "";
  const bool simulated = (*best)->in_virtual_time();
  const auto assign = [&](const char* key, double value) { best->assign(key, value, {"ripieno advise"}); };
  if (simulated) {
    if (asked.rate) assign("simulated.mbit_s", 8e-6 / seconds(link.model().per_byte));
    if (asked.latency) assign("simulated.latency_us", 1e3 * link.latency_ms);
    return "";
  }
  const bool in_lab = (*best)->lab.nodes > 0;
  if (asked.rate && in_lab) assign("lab.mbit_s", link.mbit_s);
  if (asked.rate && (!in_lab || (*best)->transport.shape.mbit_s > 0)) assign("transport.mbit_s", link.mbit_s);
  if (asked.latency) assign("transport.delay_ms", link.latency_ms);
  if (in_lab) return "";
  return "# transport.mbit_s and delay_ms make such links here; on machines that have them, leave the two out.\n";
}

/// The same.
std::string fit_rate(Settings* best, const Settings& base) {
  const double before = images_of_step(base), now = images_of_step(*best);
  const auto scale = [](const Settings& settings) { return settings->scale_rate ? settings->workers : 1; };
  const bool linear = base->plan.optimiser.name == "sgd";
  const double factor = linear ? now / before : std::sqrt(now / before);
  const double given = base->plan.learning_rate.base, whole = given * scale(base) * factor / scale(*best);
  const double digits = std::pow(10.0, 3 - std::floor(std::log10(whole)));
  const double fitting = std::round(whole * digits) / digits;
  const double old = (*best)->plan.learning_rate.base;
  if (std::abs(fitting - old) < 1e-3 * old) return "";
  best->assign("learning_rate.base", fitting, {"ripieno advise"});
  return text("# learning_rate.base was ", given, scale(base) > 1 ? text(" times ", scale(base), " workers") : "",
              " for steps of ", before, " images; these have ", now, ": the rate is in proportion",
              linear ? "" : text(" to the square root, for ", base->plan.optimiser.name), ".\n");
}

}  // namespace

std::string best_recipe(const AdviceList& list, const std::string& recipe, const Settings& base, AskedLink asked) {
  const Advice& first = list.ranked.front();
  Settings best = first.cell.settings;
  std::string notes = keep_link(&best, list.link, asked);
  if (!list.of_grid) notes += fit_rate(&best, base);
  return text("# ", recipe, " with what ripieno advise ranks first",
              list.workers > 1 ? text(" for ", list.workers, " workers, ") : " for ", list.link.mbit_s, " Mb/s, ",
              list.link.latency_ms, " ms one way: ", first.cell.name, "\n", notes, best.to_toml());
}

}  // namespace ripieno::program
