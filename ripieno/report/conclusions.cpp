#include "ripieno/report/conclusions.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

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
    way.epoch = epoch_seconds(cell);
    way.exposed = exposed_seconds(cell);
    way.bytes = busiest_bytes(cell);
    way.accuracy = final_accuracy(cell);
    ways.push_back(std::move(way));
  }
  return ways;
}

Conclusion compared(std::vector<Way> ways) {
  Comparison all;
  all.target = target_of(ways);
  for (Way& way : ways) {
    if (all.target) way.reach = seconds_to(way.cell, all.target->middle);
  }
  all.ways = std::move(ways);
  all.baseline = baseline_of(all.ways);
  Conclusion found;
  found.setting = setting_in_words(all.ways[0].cell.first());
  if (all.baseline) {
    found.baseline = all.baseline->cell.name;
    found.setting +=
        text("; compared with ", all.baseline->name, is_plain_ring(*all.baseline) ? ", a ring in fp32" : "");
  }
  if (all.target) found.target = all.target->middle;
  const auto add = [](std::vector<Sentence>& to, std::optional<Sentence> sentence) {
    if (sentence) to.push_back(std::move(*sentence));
  };
  add(found.sentences, time_sentence(all));
  add(found.sentences, bytes_sentence(all));
  add(found.sentences, all.target ? accuracy_sentence(all) : waiting_sentence(all));
  add(found.notes, arithmetic_note(all));
  add(found.notes, chance_note(all));
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
    if (workers == 0 || mean(images_a_second(cell)) <= 0) continue;
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

std::string Sentence::str() const {
  std::string all;
  for (const Piece& piece : pieces) all += piece.text;
  return all;
}

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
