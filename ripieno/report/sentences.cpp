// The sentences that compare ways: which statements they make.
#include "ripieno/report/sentences.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ripieno/core/error.h"

namespace ripieno::report {
namespace {

using Kind = Statement::Kind;

constexpr double nearly = 1.005;  // a ratio below this is no difference worth a word

std::vector<std::string> names(const std::vector<const Way*>& ways) {
  std::vector<std::string> all;
  for (const Way* way : ways) all.push_back(way->name);
  return all;
}

StatedNumber value_of(const Estimate& estimate) { return {estimate.middle, estimate.source}; }

bool is_virtual(const Way& way) {
  const std::string& kind = way.cell.first().summary.kind;
  return kind == "simulated" || kind == "projected";
}

/// Whether one seed's number is no matter of chance: bytes are counted, virtual time is computed.
bool is_counted(const Comparison& all, Quantity quantity) {
  if (quantity == Quantity::bytes) return true;
  const bool is_time = quantity == Quantity::epoch || quantity == Quantity::waiting;
  return is_time && std::all_of(all.ways.begin(), all.ways.end(), is_virtual);
}

/// Writes one sentence.
class Comparing {
 public:
  Comparing(const Comparison& all, Quantity quantity)
      : all_(all), quantity_(quantity), order_(ranking(all, quantity)), base_(*all.baseline) {}

  std::vector<Statement> statements(std::size_t* tested) {
    const Estimate& best = number(*order_.best);
    *tested += order_.pairs.tested();
    if (is_unbeaten()) {
      Statement statement{
          .kind = Kind::unbeaten, .quantity = quantity_, .subjects = {base_.name}, .values = own_values(base_)};
      statement.is_nearly = best.middle < number(base_).middle;
      if (is_of_some()) statement.values.push_back(value_of(*all_.target));
      said_.push_back(statement);
      add_rest(base_);
      add_worst();
    } else {
      add_best();
      add_rest(*order_.best);
    }
    add_short();
    return std::move(said_);
  }

 private:
  const Estimate& number(const Way& way) const { return *way.number(quantity_); }

  Paired between(const Way& a, const Way& b) const { return order_.pairs.between(all_.index(a), all_.index(b)); }
  /// Whether the first is lower for sure.
  bool is_lower(const Way& a, const Way& b) const {
    const Paired pair = between(a, b);
    return pair.is_ranked && (pair.is_ratio ? pair.effect < 1 : pair.effect < 0);
  }
  bool is_near(const Way& a, const Way& b) const {
    const double low = std::min(number(a).middle, number(b).middle),
                 high = std::max(number(a).middle, number(b).middle);
    return high <= nearly * low;
  }
  bool is_able(const Way& way) const {
    return std::find(order_.able.begin(), order_.able.end(), &way) != order_.able.end();
  }
  /// Whether the sentence is about those alone that come to the target, because others are faster.
  bool is_of_some() const {
    return !order_.short_of_target.empty() && (quantity_ == Quantity::epoch || quantity_ == Quantity::bytes);
  }
  /// Whether the baseline has the number, and is not faster without coming to the target.
  bool has_base() const {
    const auto& fast = order_.short_of_target;
    return base_.number(quantity_) && std::find(fast.begin(), fast.end(), &base_) == fast.end();
  }

  /// Whether the baseline is best; where seeds rank nothing only if it is ranked, or the numbers are counted.
  bool is_unbeaten() const {
    if (!is_able(base_)) return false;
    if (order_.best != &base_) return is_near(*order_.best, base_) && seeds_of_pairs(base_) > 1;
    return order_.able.size() == 1 || seeds_of_pairs(base_) > 1 || is_counted(all_, quantity_);
  }
  /// The most seeds that the way has in common with another.
  std::size_t seeds_of_pairs(const Way& way) const {
    std::size_t most = 0;
    for (const Way* other : order_.able) {
      if (other != &way && (&way == order_.best || &way == &base_ || other == order_.best))
        most = std::max(most, between(way, *other).seeds);
    }
    return most;
  }

  std::vector<StatedNumber> own_values(const Way& way) const {
    std::vector<StatedNumber> values{value_of(number(way))};
    if (quantity_ == Quantity::waiting) values.push_back(value_of(*way.epoch));
    if (quantity_ == Quantity::reach) values.push_back(value_of(*all_.target));
    return values;
  }

  void add_best() {
    const Way& best = *order_.best;
    const bool with_base = has_base() && &best != &base_;
    Statement statement{.kind = Kind::best, .quantity = quantity_, .subjects = {best.name}, .values = own_values(best)};
    // What it is ranked by: the way that others are compared with, or else whoever comes next.
    const Way* next = with_base ? &base_ : nullptr;
    for (const Way* way : order_.able) {
      if (way != &best && (!next || (!with_base && number(*way).middle < number(*next).middle))) next = way;
    }
    statement.is_ranked = !next || is_lower(best, *next);
    if (next) statement.object = next->name;
    if (is_of_some()) statement.values.push_back(value_of(*all_.target));
    statement.seeds = next ? between(best, *next).seeds : 0;
    said_.push_back(statement);
    if (with_base) add_beside(best, statement.is_ranked);
    if (!statement.is_ranked && (with_base || statement.seeds < 2)) {
      said_.push_back({.kind = Kind::not_ranked, .quantity = quantity_, .subjects = {best.name}, .object = next->name});
      said_.back().seeds = statement.seeds;
    }
    const bool is_price = quantity_ == Quantity::epoch || quantity_ == Quantity::bytes;
    if (with_base && is_price) add_price(best);
  }

  void add_beside(const Way& best, bool is_ranked) {
    const Estimate &own = number(best), &other = number(base_);
    const Paired pair = between(base_, best);
    const double ratio = pair.is_ratio    ? pair.effect
                         : own.middle > 0 ? other.middle / own.middle
                                          : std::numeric_limits<double>::infinity();
    Statement statement{.kind = Kind::beside, .quantity = quantity_, .subjects = {best.name}, .object = base_.name};
    statement.values = {value_of(other), {ratio, own.source}};
    if (quantity_ == Quantity::waiting) statement.values[1] = value_of(*base_.epoch);
    statement.is_ranked = is_ranked;
    statement.seeds = pair.seeds;
    said_.push_back(statement);
  }

  void add_price(const Way& best) {
    if (!best.accuracy || !base_.accuracy || is_same_arithmetic(best, base_)) return;
    const Paired pair = all_.prices.between(all_.index(best), all_.index(base_));
    Statement statement{
        .kind = Kind::price, .quantity = Quantity::accuracy, .subjects = {best.name}, .object = base_.name};
    statement.values = {value_of(*best.accuracy), value_of(*base_.accuracy), {pair.effect, best.accuracy->source}};
    statement.is_ranked = pair.is_ranked;
    statement.seeds = pair.seeds;
    said_.push_back(statement);
  }

  /// The others that come as close as chance allows; of one seed nobody is named, since nobody is ranked.
  void add_rest(const Way& first) {
    std::vector<const Way*> alike, near;
    for (const Way* way : order_.able) {
      if (way == &first || (way == &base_ && &first != &base_)) continue;
      const Paired pair = between(first, *way);
      if (is_near(first, *way) && (pair.is_ranked || is_counted(all_, quantity_))) {
        near.push_back(way);
      } else if (!pair.is_ranked && pair.seeds > 1) {
        alike.push_back(way);
      }
    }
    if (!alike.empty())
      said_.push_back({.kind = Kind::not_apart, .quantity = quantity_, .subjects = names(alike), .object = first.name});
    if (!near.empty())
      said_.push_back({.kind = Kind::as_much, .quantity = quantity_, .subjects = names(near), .object = first.name});
  }

  void add_worst() {
    const Way& worst = *order_.worst;
    if ((quantity_ != Quantity::epoch && quantity_ != Quantity::bytes) || &worst == &base_) return;
    const Paired pair = between(worst, base_);
    if (!pair.is_ranked || !pair.is_ratio || pair.effect < 1.1) return;
    Statement statement{.kind = Kind::worst, .quantity = quantity_, .subjects = {worst.name}, .object = base_.name};
    statement.values = {{pair.effect, number(worst).source}};
    statement.seeds = pair.seeds;
    said_.push_back(statement);
  }

  void add_short() {
    if (quantity_ == Quantity::reach) {
      std::vector<const Way*> never;
      for (const Way& way : all_.ways) {
        if (way.accuracy && !way.reach) never.push_back(&way);
      }
      if (!never.empty()) said_.push_back({.kind = Kind::never, .quantity = quantity_, .subjects = names(never)});
    } else if (quantity_ != Quantity::waiting && !order_.short_of_target.empty()) {
      Statement statement{
          .kind = Kind::short_of_target, .quantity = quantity_, .subjects = names(order_.short_of_target)};
      statement.object = order_.best->name;
      statement.values = {value_of(*all_.target)};
      said_.push_back(statement);
    }
  }

  const Comparison& all_;
  const Quantity quantity_;
  const Ranking order_;
  const Way& base_;
  std::vector<Statement> said_;
};

const char* about(Quantity quantity) {
  switch (quantity) {
    case Quantity::epoch:
      return "time";
    case Quantity::reach:
      return "accuracy";
    default:
      return name(quantity);
  }
}

}  // namespace

const std::optional<Estimate>& Way::number(Quantity quantity) const {
  switch (quantity) {
    case Quantity::epoch:
      return epoch;
    case Quantity::bytes:
      return bytes;
    case Quantity::reach:
      return reach;
    case Quantity::waiting:
      return exposed;
    case Quantity::accuracy:
      return accuracy;
    case Quantity::images:
      break;
  }
  fail(ErrorKind::internal, "ways are not compared by ", report::name(quantity));
}

Ranking ranking(const Comparison& all, Quantity quantity) {
  Ranking found{.pairs = Pairs(quantity == Quantity::accuracy ? By::difference : By::ratio, is_counted(all, quantity))};
  std::vector<const Way*> rest;
  for (const Way& way : all.ways) {
    if (way.number(quantity)) (!all.target || way.reach ? found.able : rest).push_back(&way);
  }
  const auto middle = [quantity](const Way* way) { return way->number(quantity)->middle; };
  std::stable_sort(found.able.begin(), found.able.end(),
                   [&](const Way* a, const Way* b) { return middle(a) < middle(b); });
  if (found.able.empty()) return found;
  found.best = found.able.front();
  found.worst = found.able.back();
  for (const Way* way : rest) {
    if (middle(way) < middle(found.best)) found.short_of_target.push_back(way);
  }
  const auto add = [&](const Way& a, const Way& b) {
    found.pairs.add(all.index(a), *a.number(quantity), all.index(b), *b.number(quantity));
  };
  for (const Way* way : found.able) add(*found.best, *way);
  if (all.baseline && all.baseline->number(quantity)) {
    for (const Way& way : all.ways) {
      if (way.number(quantity)) add(*all.baseline, way);
    }
  }
  found.pairs.correct();
  return found;
}

std::optional<Sentence> compared_sentence(const Comparison& all, Quantity quantity, std::size_t* tested) {
  if (!all.baseline || (quantity == Quantity::reach && !all.target)) return std::nullopt;
  const Ranking order = ranking(all, quantity);
  const Estimate* base = all.baseline->number(quantity) ? &*all.baseline->number(quantity) : nullptr;
  if (!order.best) return std::nullopt;
  if (quantity == Quantity::bytes && (!base || base->middle <= 0)) return std::nullopt;
  if (quantity == Quantity::epoch && !base) return std::nullopt;
  if (quantity == Quantity::waiting && (!base || !order.best->epoch || !all.baseline->epoch)) return std::nullopt;
  return sentence_of(about(quantity), Comparing(all, quantity).statements(tested));
}

}  // namespace ripieno::report
