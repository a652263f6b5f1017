#include "ripieno/report/pairing.h"

#include <algorithm>
#include <cmath>

#include "ripieno/core/error.h"
#include "ripieno/report/statistics.h"

namespace ripieno::report {
namespace {

constexpr double accepted = 0.05;

Paired turned(Paired pair) {
  pair.effect = pair.is_ratio ? 1 / pair.effect : -pair.effect;
  return pair;
}

}  // namespace

Paired paired(const Estimate& a, const Estimate& b, By by) {
  std::vector<std::pair<double, double>> common;
  for (const auto& [seed, of_a] : a.by_seed) {
    for (const auto& [other, of_b] : b.by_seed) {
      if (other == seed) common.emplace_back(of_a, of_b);
    }
  }
  Paired found;
  found.seeds = common.size();
  if (common.empty()) common.emplace_back(a.middle, b.middle);
  found.is_ratio = by == By::ratio && std::all_of(common.begin(), common.end(),
                                                  [](const auto& one) { return one.first > 0 && one.second > 0; });
  std::vector<double> differences;
  for (const auto& [of_a, of_b] : common) differences.push_back(found.is_ratio ? std::log(of_a / of_b) : of_a - of_b);
  const double middle = mean(differences);
  found.effect = found.is_ratio ? std::exp(middle) : middle;
  if (found.seeds < 2) return found;
  found.half = interval95(differences);
  found.p = paired_t_test(differences);
  found.is_ranked = found.p < accepted;
  return found;
}

void Pairs::add(std::size_t a, const Estimate& of_a, std::size_t b, const Estimate& of_b) {
  if (a == b || pairs_.contains({b, a})) return;
  Paired pair = paired(of_a, of_b, by_);
  if (is_counted_ && pair.seeds == 1) pair.p = of_a.middle == of_b.middle ? 1 : 0;
  pairs_.emplace(std::pair(a, b), pair);
}

void Pairs::correct() {
  std::vector<double> p;
  for (const auto& [ways, pair] : pairs_) p.push_back(pair.p);
  p = holm(p);
  auto next = p.begin();
  for (auto& [ways, pair] : pairs_) {
    pair.p = *next++;
    pair.is_ranked = pair.p < accepted;
  }
}

Paired Pairs::between(std::size_t a, std::size_t b) const {
  if (const auto found = pairs_.find({a, b}); found != pairs_.end()) return found->second;
  const auto found = pairs_.find({b, a});
  require(found != pairs_.end(), "ways ", a, " and ", b, " were not compared");
  return turned(found->second);
}

std::size_t Pairs::tested() const {
  return static_cast<std::size_t>(
      std::count_if(pairs_.begin(), pairs_.end(), [](const auto& one) { return one.second.seeds > 1; }));
}

}  // namespace ripieno::report
