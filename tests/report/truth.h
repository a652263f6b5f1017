// A grid as it was made, and what follows from it, computed without the report.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ripieno/report/statements.h"
#include "ripieno/report/statistics.h"
#include "tests/report/runs.h"

namespace ripieno::report {

using testing::Made;
using testing::made;
using Kind = Statement::Kind;
using RunsOfSeeds = std::map<std::int64_t, Made>;
using OfSeeds = std::map<std::int64_t, double>;

constexpr double guessed = 13;  // per cent

inline double mean_of(const OfSeeds& numbers) {
  double sum = 0;
  for (const auto& [seed, number] : numbers) sum += number;
  return sum / static_cast<double>(numbers.size());
}

inline bool is_near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max({1.0, std::abs(a), std::abs(b)}); }

/// The grid as it was made, and what follows from it.
class Truth {
 public:
  std::map<std::string, RunsOfSeeds> ways;
  bool is_virtual = false;

  using Seeds = std::set<std::int64_t>;
  Seeds seeds_in_common(const std::string& a, const std::string& b) const {
    Seeds both;
    for (const auto& [seed, run] : ways.at(a)) {
      if (ways.at(b).count(seed) > 0) both.insert(seed);
    }
    return both;
  }
  /// By which a way is compared; where that may leave out some.
  Seeds seeds_of(const std::string& way) const {
    if (baseline.empty() || seeds_in_common(way, baseline).size() < 2) return seeds_in_common(way, way);
    Seeds common = seeds_in_common(way, baseline);
    for (const auto& [other, runs] : ways) {
      const Seeds shared = seeds_in_common(other, baseline);
      if (shared.size() > 1) std::erase_if(common, [&](std::int64_t seed) { return shared.count(seed) == 0; });
    }
    return common.size() > 1 ? common : seeds_in_common(way, way);
  }
  /// One number a seed; empty where a run does not come to the target.
  OfSeeds of(const std::string& way, Quantity quantity) const {
    OfSeeds numbers;
    const Seeds compared = seeds_of(way);
    for (const auto& [seed, run] : ways.at(way)) {
      if (compared.count(seed) == 0) continue;
      switch (quantity) {
        case Quantity::epoch:
          numbers[seed] = run.seconds;
          break;
        case Quantity::bytes:
          numbers[seed] = std::floor(2e6 * run.megabytes) / 2;
          break;
        case Quantity::waiting:
          numbers[seed] = run.waited;
          break;
        case Quantity::accuracy:
          numbers[seed] = run.last;
          break;
        default:
          if (std::max(run.first, run.last) < target) return {};
          numbers[seed] = run.first >= target ? run.seconds : 2 * run.seconds;
      }
    }
    return numbers;
  }
  double mean(const std::string& way, Quantity quantity) const { return mean_of(of(way, quantity)); }
  bool is_able(const std::string& way) const { return target == 0 || !of(way, Quantity::reach).empty(); }

  std::vector<std::string> able(Quantity quantity) const {
    std::vector<std::string> found;
    for (const auto& [way, seeds] : ways) {
      if (is_able(way) && !of(way, quantity).empty()) found.push_back(way);
    }
    return found;
  }
  std::string best(Quantity quantity) const {
    std::string found;
    for (const std::string& way : able(quantity)) {
      if (found.empty() || mean(way, quantity) < mean(found, quantity)) found = way;
    }
    return found;
  }

  struct Pair {
    std::size_t seeds = 0;
    double effect = 0, p = 1;  // a over b, or a - b
  };
  Pair pair(const std::string& a, const std::string& b, Quantity quantity) const {
    const OfSeeds of_a = of(a, quantity), of_b = of(b, quantity);
    std::vector<double> differences;
    const bool is_ratio = quantity != Quantity::accuracy;
    for (const auto& [seed, number] : of_a) {
      if (const auto other = of_b.find(seed); other != of_b.end())
        differences.push_back(is_ratio ? std::log(number / other->second) : number - other->second);
    }
    Pair found{differences.size()};
    if (differences.empty()) {
      found.effect = is_ratio ? mean_of(of_a) / mean_of(of_b) : mean_of(of_a) - mean_of(of_b);
      return found;
    }
    const double middle = report::mean(differences);
    found.effect = is_ratio ? std::exp(middle) : middle;
    if (found.seeds > 1) found.p = paired_t_test(differences);
    if (found.seeds == 1 && is_counted(quantity)) found.p = of_a.begin()->second == of_b.begin()->second ? 1 : 0;
    return found;
  }

  /// Whether numbers of one seed say which is lower, or the way has two seeds in common with another.
  bool is_comparable(const std::string& way, Quantity quantity) const {
    const auto others = able(quantity);
    return is_counted(quantity) || std::any_of(others.begin(), others.end(), [&](const std::string& other) {
             return other != way && pair(way, other, quantity).seeds > 1;
           });
  }
  bool is_counted(Quantity quantity) const {
    return quantity == Quantity::bytes ||
           (is_virtual && (quantity == Quantity::epoch || quantity == Quantity::waiting));
  }

  using Names = std::set<std::string>;
  /// The pairs that a sentence tests.
  std::set<Names> tested(Quantity quantity) const {
    std::set<Names> pairs;
    if (quantity == Quantity::accuracy) {
      pairs = {{best(Quantity::epoch), baseline}, {best(Quantity::bytes), baseline}};
    } else {
      for (const std::string& way : able(quantity)) pairs.insert({best(quantity), way});
      for (const auto& [way, seeds] : ways) {
        if (!of(way, quantity).empty() && !of(baseline, quantity).empty()) pairs.insert({baseline, way});
      }
    }
    std::erase_if(pairs, [](const Names& one) { return one.size() < 2; });
    return pairs;
  }
  /// nullopt if no sentence tests the pair.
  std::optional<bool> is_ranked(const std::string& a, const std::string& b, Quantity quantity) const {
    std::vector<double> p;
    std::size_t at = SIZE_MAX;
    for (const Names& one : tested(quantity)) {
      if (one == Names{a, b}) at = p.size();
      p.push_back(pair(*one.begin(), *one.rbegin(), quantity).p);
    }
    return at == SIZE_MAX ? std::optional<bool>() : holm(p)[at] < 0.05;
  }

  std::string baseline;
  double target = 0;
};

}  // namespace ripieno::report
