#include "ripieno/report/conclusions.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "ripieno/core/error.h"
#include "ripieno/report/sentences.h"
#include "ripieno/report/setting.h"
#include "ripieno/report/statistics.h"

namespace ripieno::report {
namespace {

constexpr double far_behind = 5;  // points of accuracy

bool is_plain_ring(const Way& way) {
  const Run& run = way.cell.first();
  const auto precision = run.settings.find("train.precision");
  const bool is_fp64 =
      precision != run.settings.end() && precision->second == "\"fp64\"";  // which auto leaves as it is
  return run.summary.strategy == "ring" && (run.summary.codec == "fp32" || (run.summary.codec == "auto" && !is_fp64));
}

/// A ring in fp32; without one the slowest exact way; else the slowest.
const Way* baseline_of(const std::vector<Way>& ways) {
  for (const Way& way : ways) {
    if (is_plain_ring(way)) return &way;
  }
  const Way* slowest = nullptr;
  for (const bool exact : {true, false}) {
    for (const Way& way : ways) {
      if (way.exact != exact || !way.epoch) continue;
      if (!slowest || way.epoch->middle > slowest->epoch->middle) slowest = &way;
    }
    if (slowest) break;
  }
  return slowest;
}

/// The highest half per cent that all ways reach, except those far behind the median, with the source line of the way
/// that sets it.
std::optional<Estimate> target_of(const std::vector<Way>& ways) {
  std::vector<Estimate> reached;
  for (const Way& way : ways) {
    if (const auto one = reached_accuracy(way.cell)) reached.push_back(*one);
  }
  if (reached.empty()) return std::nullopt;
  std::vector<double> values;
  for (const Estimate& one : reached) values.push_back(one.middle);
  const double least = median(values) - far_behind;
  std::erase_if(reached, [&](const Estimate& one) { return one.middle < least; });
  Estimate target = *std::min_element(reached.begin(), reached.end(),
                                      [](const Estimate& a, const Estimate& b) { return a.middle < b.middle; });
  target.middle = std::floor(2 * target.middle) / 2;
  return target;
}

/// What guessing gets at most, per cent; 0 where that is not known.
double guessed(const std::vector<Way>& ways) {
  const auto& guessing = ways[0].cell.first().guessing;
  return guessing ? 100 * guessing->most : 0;
}

/// Fills in the numbers of its cell's runs.
void count(Way* way) {
  way->epoch = epoch_seconds(way->cell);
  way->exposed = exposed_seconds(way->cell);
  way->bytes = busiest_bytes(way->cell);
  way->accuracy = final_accuracy(way->cell);
}

using Seeds = std::set<std::int64_t>;

Seeds seeds_of(const Way& way) {
  Seeds seeds;
  for (const Run* run : way.cell.runs) seeds.insert(run->summary.seed);
  return seeds;
}

Seeds in_common(const Seeds& a, const Seeds& b) {
  Seeds both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(both, both.end()));
  return both;
}

/// Where runs are missing, ways that have two seeds or more in common with the baseline are compared by the runs of the
/// seeds that all of these have. Returns how many seeds they are; nullopt: no run had to be left out.
std::optional<std::size_t> keep_common_seeds(std::vector<Way>* ways, const Way& baseline) {
  const Seeds of_baseline = seeds_of(baseline);
  Seeds common = of_baseline;
  std::vector<Way*> compared;
  for (Way& way : *ways) {
    if (in_common(seeds_of(way), of_baseline).size() < 2) continue;
    compared.push_back(&way);
    common = in_common(common, seeds_of(way));
  }
  if (common.size() < 2) return std::nullopt;
  bool left_out = false;
  for (Way* way : compared) {
    const auto is_other = [&](const Run* run) { return common.count(run->summary.seed) == 0; };
    if (std::erase_if(way->cell.runs, is_other) == 0) continue;
    left_out = true;
    count(way);
  }
  return left_out ? std::optional(common.size()) : std::nullopt;
}

}  // namespace

Comparison comparison_of(std::vector<Way> ways) {
  Comparison all;
  const Way* baseline = baseline_of(ways);
  if (baseline) all.some_seeds = keep_common_seeds(&ways, *baseline);
  all.target = target_of(ways);
  if (all.target && all.target->middle <= guessed(ways)) all.target.reset();
  for (Way& way : ways) {
    if (all.target) way.reach = seconds_to(way.cell, all.target->middle);
  }
  const std::ptrdiff_t index = baseline ? baseline - ways.data() : 0;
  all.ways = std::move(ways);
  if (baseline) all.baseline = &all.ways[static_cast<std::size_t>(index)];
  if (!all.baseline || !all.baseline->accuracy) return all;
  for (const Quantity quantity : {Quantity::epoch, Quantity::bytes}) {
    const Way* best = ranking(all, quantity).best;
    if (best && best->accuracy)
      all.prices.add(all.index(*best), *best->accuracy, all.index(*all.baseline), *all.baseline->accuracy);
  }
  all.prices.correct();
  return all;
}

namespace {

std::vector<Way> ways_of(const std::vector<Cell>& cells) {
  std::vector<Way> ways;
  for (const Cell& cell : cells) {
    Way way;
    const auto has_its_name = [&](const Cell& other) {
      return other.first().summary.name == cell.first().summary.name;
    };
    way.name = std::count_if(cells.begin(), cells.end(), has_its_name) == 1 ? cell.first().summary.name : cell.name;
    way.cell = cell;
    const auto lost = [](const Run* run) { return !run->summary.losses().empty(); };
    way.exact = cell.first().exact && std::none_of(cell.runs.begin(), cell.runs.end(), lost);
    way.steps = cell.first().summary.steps;
    count(&way);
    ways.push_back(std::move(way));
  }
  return ways;
}

/// Every way of one number beside the baseline, by its cell's name.
std::map<std::string, Paired> beside_baseline(const Comparison& all, Quantity quantity) {
  std::map<std::string, Paired> found;
  if (!all.baseline->number(quantity)) return found;
  const Ranking order = ranking(all, quantity);
  for (const Way& way : all.ways) {
    if (&way == all.baseline || !way.number(quantity) || order.able.empty()) continue;
    found[way.cell.name] = order.pairs.between(all.index(*all.baseline), all.index(way));
  }
  return found;
}

Conclusion compared(std::vector<Way> ways) {
  const Comparison all = comparison_of(std::move(ways));
  Conclusion found;
  found.setting = setting_in_words(all.ways[0].cell.first());
  if (all.baseline) {
    found.baseline = all.baseline->cell.name;
    found.setting +=
        text("; compared with ", all.baseline->name, is_plain_ring(*all.baseline) ? ", a ring in fp32" : "");
    found.faster = beside_baseline(all, Quantity::epoch);
    found.smaller = beside_baseline(all, Quantity::bytes);
  }
  if (all.target) found.target = all.target->middle;
  std::size_t tested = all.prices.tested();
  for (const Quantity quantity : {Quantity::epoch, Quantity::bytes, all.target ? Quantity::reach : Quantity::waiting}) {
    if (auto sentence = compared_sentence(all, quantity, &tested)) found.sentences.push_back(std::move(*sentence));
  }
  if (auto note = arithmetic_note(all)) found.notes.push_back(std::move(*note));
  for (Sentence& note : seeds_notes(all, tested)) found.notes.push_back(std::move(note));
  return found;
}

/// How the first way scales that was run with several numbers of workers and nothing else changed but its learning
/// rate: either the batch of all (strong), or that of each (weak), stayed the same.
std::optional<Conclusion> scaling(const std::vector<Cell>& cells) {
  std::map<std::string, std::vector<const Cell*>> alike;
  for (const Cell& cell : cells) {
    const Run& run = cell.first();
    const Summary& one = run.summary;
    const std::size_t workers = run.workers().size();
    if (workers == 0 || images_a_second(cell).middle <= 0) continue;
    const std::string same = text(one.name, '\n', one.model, '\n', one.dataset, '\n', one.kind, '\n', slowness_of(run),
                                  '\n', settings_of(run, {Concern::agreement, Concern::place, Concern::training}));
    alike[text(same, "\nstrong ", run.batch())].push_back(&cell);
    alike[text(same, "\nweak ", run.batch() / workers)].push_back(&cell);
  }
  const auto workers = [](const Cell* cell) { return cell->first().workers().size(); };
  for (auto& [same, group] : alike) {
    std::stable_sort(group.begin(), group.end(), [&](const Cell* a, const Cell* b) { return workers(a) < workers(b); });
    const std::size_t few = workers(group.front()), many = workers(group.back());
    if (few == many) continue;
    const Summary& one = group.back()->first().summary;
    Conclusion found;
    found.setting = text(one.model, " on ", one.dataset, ", ", few, " to ", many, " workers");
    found.sentences = {scaling_sentence(*group.front(), *group.back())};
    return found;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Conclusion> conclusions(const std::vector<Cell>& cells) {
  std::vector<std::vector<Cell>> groups;
  std::map<std::string, std::size_t> index;
  for (const Cell& cell : cells) {
    const auto [at, is_new] = index.emplace(setting_of(cell.first()), groups.size());
    if (is_new) groups.emplace_back();
    groups[at->second].push_back(cell);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  std::vector<Conclusion> found;
  if (groups.size() > 1 && groups[0].size() == 1) {
    if (auto one = scaling(cells)) found.push_back(std::move(*one));
  }
  for (const auto& group : groups) {
    const auto ways = ways_of(group);
    if (group.size() > 1) {
      found.push_back(compared(ways));
      for (const Cell& cell : cells) {
        if (auto note = alone_note(ways, cell)) found.back().notes.push_back(std::move(*note));
      }
    } else {
      found.push_back({setting_in_words(group[0].first()), {run_sentence(ways[0])}, {}});
    }
    for (Sentence& note : doubt_notes(ways)) found.back().notes.push_back(std::move(note));
    for (const Way& way : ways) {
      for (Sentence& note : losses_notes(way)) found.back().notes.push_back(std::move(note));
    }
    found.back().ways = names_of(group);
  }
  return found;
}

std::string str(const std::vector<Conclusion>& conclusions) {
  std::string all;
  for (const Conclusion& one : conclusions) {
    all += text(all.empty() ? "" : "\n", one.setting, ".\n");
    for (const auto* sentences : {&one.sentences, &one.notes}) {
      for (const Sentence& sentence : *sentences) all += sentence.str() + "\n";
    }
  }
  return all;
}

}  // namespace ripieno::report
