#include "ripieno/report/looks.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

namespace ripieno::report {
namespace {

/// Strategies, each with the colour of its place, counted in twelves: those that are mostly compared are in the first
/// twelve.
constexpr const char* strategies[] = {"ring",
                                      "ddp",
                                      "gather-scatter",
                                      "local-sgd",
                                      "ps-async",
                                      "fedavg",
                                      "ps-sync",
                                      "diloco",
                                      "ps-ssp",
                                      "gossip-pairs",
                                      "leader-ring",
                                      "single",
                                      "hierarchical",
                                      "accumulate",
                                      "ring-passes",
                                      "fedavgm",
                                      "fedadam",
                                      "ring-groups",
                                      "gossip-exponential",
                                      "streaming-diloco"};

/// Whether the runs have the name of a known strategy, and so its colour.
bool is_fixed(const Cell& cell) {
  const Summary& one = cell.first().summary;
  return one.name == one.strategy &&
         std::find(std::begin(strategies), std::end(strategies), one.name) != std::end(strategies);
}

/// The colour that the name has in every report, or has where it is free.
int colour_of(const std::string& name) {
  const auto known = std::find(std::begin(strategies), std::end(strategies), name);
  if (known != std::end(strategies)) return static_cast<int>(known - std::begin(strategies)) % colours;
  unsigned hash = 2166136261u;  // FNV-1a: the same everywhere
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return static_cast<int>(hash % colours);
}

}  // namespace

void give_looks(std::vector<Cell>& cells) {
  std::map<std::string, int> given;
  std::map<int, int> names;  // how many names have each colour
  for (const bool of_fixed : {true, false}) {
    for (const Cell& cell : cells) {
      const std::string& name = cell.first().summary.name;
      if (is_fixed(cell) != of_fixed || given.contains(name)) continue;
      int colour = colour_of(name);
      const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
      const int fewest = names.size() < colours ? 0 : std::min_element(names.begin(), names.end(), less)->second;
      while (!of_fixed && names[colour] > fewest) colour = (colour + 1) % colours;
      ++names[colour];
      given[name] = colour;
    }
  }
  std::map<int, int> used;  // how often each colour was given
  for (Cell& cell : cells) {
    const int colour = given.at(cell.first().summary.name), again = used[colour]++;
    // Markers differ between colours too, for readers who see colours less well.
    cell.look = {colour, again % dashes, (colour + again / dashes) % markers};
  }
}

}  // namespace ripieno::report
