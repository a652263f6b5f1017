#include "ripieno/report/compare.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "ripieno/core/error.h"
#include "ripieno/report/format.h"
#include "ripieno/report/statistics.h"
#include "ripieno/report/table.h"
#include "ripieno/report/words.h"

namespace ripieno::report {
namespace {

constexpr std::size_t widest = 140;
constexpr std::size_t shortest_name = 10;
constexpr const char* nothing = "–";

using Group = std::vector<const Summary*>;
using Field = std::function<std::optional<double>(const Summary&)>;

std::vector<Group> grouped(const std::vector<Summary>& summaries) {
  std::vector<Group> groups;
  std::map<std::string, std::size_t> index;
  for (const Summary& one : summaries) {
    const auto [at, is_new] = index.emplace(cell_of(one), groups.size());
    if (is_new) groups.emplace_back();
    groups[at->second].push_back(&one);
  }
  return groups;
}

/// One number per seed, of the runs that have the field.
std::vector<double> values(const Group& group, const Field& field) {
  std::vector<SeedNumber> all;
  for (const Summary* one : group) {
    if (const auto value = field(*one)) all.emplace_back(one->seed, *value);
  }
  return numbers_of(by_seed(all));
}

std::size_t seed_count(const Group& group) {
  return values(group, [](const Summary&) -> std::optional<double> { return 0; }).size();
}

/// A column of means: all rows have as many digits as the smallest mean needs for `figures` figures, so that they
/// compare at a glance.
std::vector<std::string> means(const std::vector<Group>& groups, const Field& field, int figures, int most_digits,
                               bool with_intervals = true) {
  double smallest = INFINITY;
  for (const Group& group : groups) {
    const auto all = values(group, field);
    if (all.empty()) continue;
    if (const double m = std::abs(mean(all)); std::isfinite(m) && m > 0) smallest = std::min(smallest, m);
  }
  int digits = 0;
  if (std::isfinite(smallest)) digits = figures - 1 - static_cast<int>(std::floor(std::log10(smallest)));
  digits = std::clamp(digits, 0, most_digits);
  const auto shown = [&](double x) { return digits == 0 ? format_count(x) : format_fixed(x, digits); };
  std::vector<std::string> cells;
  std::vector<std::string> halves;
  std::size_t half_width = 0;
  bool varies = false;
  for (const Group& group : groups) {
    const auto all = values(group, field);
    cells.push_back(all.empty() ? nothing : shown(mean(all)));
    halves.push_back(all.size() < 2 ? "" : shown(interval95(all)));
    half_width = std::max(half_width, halves.back().size());
    varies |= std::any_of(all.begin(), all.end(), [&](double x) { return x != all.front(); });
  }
  if (!varies || !with_intervals) return cells;  // like bytes, which are the same for every seed
  // Aligns the ±, also past rows without one.
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::size_t space = half_width - halves[i].size();
    cells[i] += halves[i].empty() ? std::string(half_width + 3, ' ') : " ± " + std::string(space, ' ') + halves[i];
  }
  return cells;
}

/// Whole per cents.
std::vector<std::string> shares(const std::vector<Group>& groups, observe::Stage stage) {
  const Field share = [stage](const Summary& one) -> std::optional<double> {
    const double all = one.seconds.stages.steps();
    if (!(all > 0)) return std::nullopt;
    return 100 * one.seconds.stages[stage] / all;
  };
  std::vector<std::string> cells;
  for (const Group& group : groups) {
    const auto all = values(group, share);
    const double middle = all.empty() ? 0 : mean(all);
    cells.push_back(all.empty() ? nothing : middle > 0 && middle < 0.5 ? "<1" : format_fixed(middle, 0));
  }
  return cells;
}

/// The ranks of which there are numbers: not those that died.
double ranks_of(const Summary& one) {
  return one.ranks.empty() ? one.world_size : static_cast<double>(one.ranks.size());
}

struct Content {
  std::string header;
  Align align;
  std::vector<std::string> cells;
};

/// How many times as fast as the way that others are compared with, seed by seed; in brackets where that does not rank
/// them.
std::vector<std::string> times(const std::vector<Group>& groups, const std::vector<Conclusion>& conclusions) {
  std::vector<std::string> cells;
  for (const Group& group : groups) {
    const std::string& name = group[0]->name;
    cells.push_back(nothing);
    for (const Conclusion& one : conclusions) {
      const auto found = one.faster.find(name);
      if (one.baseline == name) cells.back() = "1";
      if (found == one.faster.end() || !found->second.is_ratio) continue;
      const std::string shown = times_shown(found->second.effect);
      cells.back() = found->second.is_ranked ? shown + " " : text("(", shown, ")");
    }
  }
  const bool brackets = std::any_of(cells.begin(), cells.end(), [](const auto& cell) { return cell.ends_with(")"); });
  for (std::string& cell : cells) {
    if (!brackets && cell.ends_with(" ")) cell.pop_back();
    if (brackets && !cell.ends_with(" ") && !cell.ends_with(")")) cell += " ";
  }
  return cells;
}

std::vector<Content> contents(const std::vector<Group>& groups, const std::vector<std::string>& names,
                              const std::vector<Conclusion>& conclusions) {
  const Field accuracy = [](const Summary& one) -> std::optional<double> {
    if (!one.test) return std::nullopt;
    return 100 * one.test->accuracy;
  };
  const Field loss = [](const Summary& one) -> std::optional<double> {
    if (!one.test) return std::nullopt;
    return one.test->loss;
  };
  const Field epoch = [](const Summary& one) { return one.epoch_seconds(); };
  const Field images = [](const Summary& one) -> std::optional<double> { return one.images_per_second; };
  const Field sent = [](const Summary& one) -> std::optional<double> {
    const auto all = one.megabytes_sent(one.exchange_payload_sent);
    if (one.epochs == 0 || !all) return std::nullopt;
    return *all / one.epochs / ranks_of(one);
  };
  const Field busiest = [](const Summary& one) -> std::optional<double> {
    const auto most = one.megabytes_sent(one.sent_by_the_busiest());
    if (one.epochs == 0 || one.ranks.empty() || !most) return std::nullopt;
    return *most / one.epochs;
  };
  const Field formula = [](const Summary& one) -> std::optional<double> {
    if (!one.closed_form_payload_sent) return std::nullopt;
    return static_cast<double>(*one.closed_form_payload_sent) / 1e6 / ranks_of(one);
  };

  std::vector<Content> all{{"way", Align::left, names}, {"ranks", Align::right, {}}};
  Content seeds{"seeds", Align::right, {}};
  bool several = false;
  for (const Group& group : groups) {
    all[1].cells.push_back(std::to_string(group[0]->world_size));
    seeds.cells.push_back(std::to_string(seed_count(group)));
    several |= group.size() > 1;
  }
  if (several) all.push_back(seeds);
  all.push_back({"accuracy\n%", Align::right, means(groups, accuracy, 4, 2)});
  all.push_back({"loss", Align::right, means(groups, loss, 3, 3)});
  all.push_back({"s per\nepoch", Align::right, means(groups, epoch, 2, 4)});
  const bool compares =
      std::any_of(conclusions.begin(), conclusions.end(), [](const Conclusion& one) { return !one.faster.empty(); });
  if (compares) all.push_back({"times\nas fast", Align::right, times(groups, conclusions)});
  all.push_back({"images\nper s", Align::right, means(groups, images, 3, 1, false)});  // whose interval is the epoch's
  for (const observe::StageInfo& one : observe::stages) {
    const auto any = [&](const Group& group) { return group[0]->seconds.stages[one.stage] > 0; };
    const bool is_always = one.kind == observe::StageKind::in_step && observe::is_shown(one, 0);
    if (is_always || (one.kind != observe::StageKind::between_steps && std::any_of(groups.begin(), groups.end(), any)))
      all.push_back({text(one.column, "\n%"), Align::right, shares(groups, one.stage)});
  }
  all.push_back({"MB sent\nby the\nbusiest", Align::right, means(groups, busiest, 3, 3)});
  all.push_back({"MB sent\non\naverage", Align::right, means(groups, sent, 3, 3)});
  all.push_back({"MB by\nformula", Align::right, means(groups, formula, 3, 3)});
  return all;
}

Table built(const std::vector<Content>& contents, std::size_t rows) {
  Table table;
  for (const Content& one : contents) table.column(one.header, one.align);
  for (std::size_t i = 0; i < rows; ++i) {
    std::vector<std::string> cells;
    for (const Content& one : contents) cells.push_back(one.cells[i]);
    table.row(std::move(cells));
  }
  return table;
}

/// The name, with a mark if the figures do not come from training.
std::vector<std::string> marked_names(const std::vector<Group>& groups) {
  std::vector<std::string> names;
  for (const Group& group : groups) {
    names.push_back(group[0]->name + mark_of(group));
  }
  return names;
}

/// "read, forward, .., optimise": the stages that are parts of a step.
std::string stage_names() {
  std::string names;
  for (const observe::StageInfo& one : observe::stages) {
    if (one.kind != observe::StageKind::in_step || !observe::is_shown(one, 0)) continue;
    names += text(names.empty() ? "" : ", ", one.name);
    if (one.stage == observe::Stage::exchange) names += " (as far as compute waited for it)";
  }
  return names;
}

std::vector<std::string> notes(const std::vector<Group>& groups, const std::vector<Conclusion>& conclusions) {
  std::vector<std::string> lines{stage_names() + ": % of the steps' time",
                                 "MB (10^6 bytes) sent: payload of the exchange in an epoch: by the rank that sends "
                                 "most, on average over all ranks,",
                                 "  and that average by the strategy's formula (ripieno explain STRATEGY)"};
  const auto compares = [](const Conclusion& one) { return !one.faster.empty(); };
  if (const auto first = std::find_if(conclusions.begin(), conclusions.end(), compares); first != conclusions.end()) {
    const bool several = std::count_if(conclusions.begin(), conclusions.end(), compares) > 1;
    lines.push_back(text("times as fast: as ", first->baseline,
                         several ? ", or as the way that others of its own setting are compared with" : "",
                         ", by the time of an epoch, seed by seed; in brackets where that does not rank them"));
  }
  const auto any = [&](auto condition) { return std::any_of(groups.begin(), groups.end(), condition); };
  if (any([](const Group& g) { return seed_count(g) > 1; })) {
    lines.push_back("a ± b: mean over seeds, and the half-width of its 95 % interval (Student's t)");
  }
  for (const Group& group : groups) {
    if (const std::size_t seeds = seed_count(group); seeds < group.size()) {
      lines.push_back(text(group[0]->name, ": ", group.size(), " runs of ", seeds, seeds == 1 ? " seed" : " seeds",
                           "; a seed's repeats count once, as their mean"));
    }
  }
  if (any([](const Group& g) { return g[0]->seconds.stages[observe::Stage::other] > 0; }))
    lines.push_back("other: of a step, what its loop has not marked as another stage");
  if (any([](const Group& g) { return g[0]->hands_over(); }))
    lines.push_back("along the route native it is not known what MPI sends");
  if (any([](const Group& g) { return !g[0]->counts_bytes; }))
    lines.push_back("bytes are known only of groups of backend ripieno");
  for (const Group& group : groups) {
    for (const Summary* one : group) {
      if (one->not_finite) lines.push_back(text(one->name, ", seed ", one->seed, ": ", described(*one->not_finite)));
      if (const std::string losses = one->losses(); !losses.empty())
        lines.push_back(text(one->name, ", seed ", one->seed, ": ", losses, "; the formula is of those that are left"));
    }
  }
  if (any([](const Group& g) { return g[0]->kind == "simulated"; })) lines.push_back("~ simulated: in virtual time");
  if (any([](const Group& g) { return g[0]->kind == "projected"; }))
    lines.push_back("~= projected: compute times measured once here, in virtual time; nothing is learnt");
  if (any([](const Group& g) { return g[0]->kind == "replayed"; })) {
    lines.push_back("= replayed: measured compute times on a real network");
  }
  if (any([](const Group& g) {
        return g[0]->kind == "replayed" &&
               std::any_of(g.begin(), g.end(), [](const Summary* one) { return one->is_crowded(); });
      })) {
    lines.push_back("! the machine's CPU was above 80 %: the exchange had too little of it for replayed times to hold");
  }
  return lines;
}

}  // namespace

std::string compare_table(const std::vector<Summary>& summaries, const std::vector<Conclusion>& conclusions) {
  if (summaries.empty()) return "no runs to compare\n";
  std::vector<Group> groups = grouped(summaries);
  const auto seconds = [](const Group& group) {
    const auto all = values(group, [](const Summary& one) { return one.epoch_seconds(); });
    return all.empty() ? INFINITY : mean(all);
  };
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const Group& a, const Group& b) { return seconds(a) < seconds(b); });
  std::vector<Content> all = contents(groups, marked_names(groups), conclusions);
  Table table = built(all, groups.size());
  if (table.width() > widest) {
    std::size_t name_width = 0;
    for (const std::string& name : all[0].cells) name_width = std::max(name_width, display_width(name));
    const std::size_t too_wide = table.width() - widest;
    const std::size_t room = name_width > too_wide + shortest_name ? name_width - too_wide : shortest_name;
    for (std::string& name : all[0].cells) name = shorten(name, room);
    table = built(all, groups.size());
  }
  std::string out = table.str() + "\n";
  for (const std::string& line : notes(groups, conclusions)) out += line + "\n";
  return out;
}

}  // namespace ripieno::report
