// Why an experiment cannot answer what it seems to ask: the notes about it.
#include <algorithm>
#include <cmath>
#include <set>

#include "ripieno/core/error.h"
#include "ripieno/report/format.h"
#include "ripieno/report/sentences.h"
#include "ripieno/report/setting.h"
#include "ripieno/report/words.h"

namespace ripieno::report {
namespace {

constexpr double busy = 0.15;  // of a machine, by other programs

using Names = std::vector<std::string>;

Sentence doubt(std::string before, Names ways, std::string after) {
  Statement statement{.kind = Statement::Kind::doubt, .subjects = std::move(ways), .object = std::move(before)};
  statement.words = std::move(after);
  return sentence_of("doubt", {statement});
}

/// Routes on which one rank or all send ever more with more workers; on the others a rank sends at most twice the
/// model.
bool is_costly(const std::string& route) {
  return route == "gather-scatter" || route == "reduce-broadcast" || route == "direct";
}

/// Ways along different routes that send the same, but would not among more workers.
std::optional<Sentence> two_workers(const std::vector<Way>& ways) {
  if (ways[0].cell.first().workers().size() != 2) return std::nullopt;
  Names alike;
  for (const Way& way : ways) {
    const auto sends_the_same = [&](const Way& other) {
      const Summary &one = way.cell.first().summary, &two = other.cell.first().summary;
      return one.route != two.route && (is_costly(one.route) || is_costly(two.route)) && one.codec == two.codec &&
             way.bytes && other.bytes && way.bytes->middle > 0 && way.bytes->middle == other.bytes->middle;
    };
    if (std::any_of(ways.begin(), ways.end(), sends_the_same)) alike.push_back(way.name);
  }
  if (alike.empty()) return std::nullopt;
  return doubt("Two workers cannot tell routes apart: ", std::move(alike),
               " send the same between two; set workers = 4 or more");
}

/// An exchange through shared memory says nothing of networks.
std::optional<Sentence> one_machine(const std::vector<Way>& ways) {
  const Run& run = ways[0].cell.first();
  if (ways.size() < 2 || run.summary.kind != "computed" || run.workers().size() < 2 || link_of(run) != one_machine_link)
    return std::nullopt;
  return doubt(
      "All workers share one machine's memory, where an exchange costs little: for times over a network set "
      "transport.mbit_s = 100 (each rank's link), or lab.nodes (emulated machines)",
      {}, "");
}

std::optional<Sentence> busy_machine(const std::vector<Way>& ways) {
  double most = 0;
  Names disturbed;
  for (const Way& way : ways) {
    double worst = 0;
    for (const Run* run : way.cell.runs) worst = std::max(worst, used_by_others(*run).value_or(0));
    if (worst < busy) continue;
    most = std::max(most, worst);
    disturbed.push_back(way.name);
  }
  if (disturbed.empty()) return std::nullopt;
  const char* folders = disturbed.size() > 1 ? "their folders" : "its folder";
  return doubt(text("Other programs used up to ", format_percent(most, 0), " of the machine's CPU beside "),
               std::move(disturbed),
               text(", so that times are not those of a quiet machine: delete ", folders,
                    " and run the recipe again when it is quiet"));
}

std::optional<Sentence> no_better_than_guessing(const std::vector<Way>& ways) {
  const auto& guessing = ways[0].cell.first().guessing;
  Names guessed;
  for (const Way& way : ways) {
    if (guessing && way.accuracy && way.accuracy->middle <= 100 * guessing->most) guessed.push_back(way.name);
  }
  if (guessed.empty()) return std::nullopt;
  return doubt("", std::move(guessed),
               text(" cannot be told from guessing, which gets ", format_percent(guessing->mean, 0),
                    " of the test set right, and up to ", format_percent(guessing->most, 0),
                    " by luck; raise train.epochs or data.train_samples, or change learning_rate.base"));
}

}  // namespace

std::vector<Sentence> doubt_notes(const std::vector<Way>& ways) {
  std::vector<Sentence> notes;
  for (auto& one : {two_workers(ways), one_machine(ways), busy_machine(ways), no_better_than_guessing(ways)}) {
    if (one) notes.push_back(*one);
  }
  return notes;
}

}  // namespace ripieno::report
