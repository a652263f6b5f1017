#include "ripieno/report/sentences.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "ripieno/core/error.h"
#include "ripieno/report/format.h"
#include "ripieno/report/words.h"

namespace ripieno::report {
namespace {

constexpr Tolerance accuracy_tolerance{.absolute = 1};  // points

using OfWay = std::optional<Estimate> Way::*;

/// The compared ways: the best of those that reach the target, those that cannot be told apart from it, and those that
/// beat it without reaching the target.
struct Ranking {
  const Way* best = nullptr;
  const Way* worst = nullptr;
  std::vector<const Way*> alike, short_of_target;
};

Ranking ranking(const Comparison& all, OfWay number, Tolerance tolerance) {
  Ranking found;
  std::vector<const Way*> able, rest;
  for (const Way& way : all.ways) {
    if (way.*number) (!all.target || way.reach ? able : rest).push_back(&way);
  }
  const auto less = [number](const Way* a, const Way* b) { return (a->*number)->middle < (b->*number)->middle; };
  std::stable_sort(able.begin(), able.end(), less);
  if (able.empty()) return found;
  found.best = able.front();
  found.worst = able.back();
  const Estimate& best = *(found.best->*number);
  for (std::size_t i = 1; i < able.size(); ++i) {
    if (!told_apart(*(able[i]->*number), best, tolerance)) found.alike.push_back(able[i]);
  }
  for (const Way* way : rest) {
    if ((way->*number)->middle < best.middle) found.short_of_target.push_back(way);
  }
  return found;
}

bool contains(const std::vector<const Way*>& ways, const Way* way) {
  return std::find(ways.begin(), ways.end(), way) != ways.end();
}

/// ", for 0.2 points less accuracy (96.9 against 97.1 %)": the cost of winning; "" if the arithmetic is the same.
void add_price(Words& words, const Way& way, const Way& base) {
  if (!way.accuracy || !base.accuracy || is_same_arithmetic(way, base)) return;
  const Estimate &own = *way.accuracy, &other = *base.accuracy;
  const bool apart = told_apart(own, other, accuracy_tolerance);
  if (apart) {
    words.say(own.middle < other.middle ? ", for " : ", with ")
        .number(percent(std::abs(own.middle - other.middle)), own.source);
    words.say(own.middle < other.middle ? " points less accuracy (" : " points more accuracy (");
  } else {
    words.say(", and accuracy cannot be told apart (");
  }
  words.number(percent(own.middle), own.source).say(" against ").number(percent(other.middle), other.source).say(" %)");
}

void add_alike(Words& words, const Ranking& order, const Way* base, const char* verb) {
  std::vector<const Way*> others = order.alike;
  std::erase(others, base);
  if (others.empty()) return;
  words.say("; ").names(others).say(verb);
}

/// Whether the way that others are compared with beats the best, but does not come to the target.
bool is_short(const Ranking& order, const Way* base) { return contains(order.short_of_target, base); }

/// " of those that come to 96.5 % of the test set"
void add_condition(Words& words, const Comparison& all) {
  words.say(" of those that come to ")
      .number(percent(all.target->middle), all.target->source)
      .say(" % of the test set");
}

void add_short(Words& words, const Ranking& order, const Comparison& all, const char* verb) {
  if (order.short_of_target.empty()) return;
  const bool one = order.short_of_target.size() == 1;
  words.say("; ")
      .names(order.short_of_target)
      .say(text(one ? " " : " each ", verb, ", but ", one ? "does" : "do", " not come to "))
      .number(percent(all.target->middle), all.target->source)
      .say(" % of the test set");
}

/// "2.1 times as fast as ring (4.85 s)", or, for less than a tenth, "4 % less time than ring (4.85 s)".
void add_speed(Words& words, const Estimate& own, const Way& base, const Estimate& other) {
  const double ratio = other.middle / own.middle;
  if (ratio >= 1.1) {
    words.number(ratio_in_words(ratio), own.source).say(" times as fast as ");
  } else {
    words.number(format_fixed(100 * (1 - own.middle / other.middle), 0), own.source).say(" % less time than ");
  }
  words.way(base.name).say(" (").number(format_seconds(other.middle), other.source).say(")");
}

}  // namespace

std::optional<Sentence> time_sentence(const Comparison& all) {
  const Ranking order = ranking(all, &Way::epoch, time_tolerance);
  const Way* base = all.baseline;
  if (!order.best || !base || !base->epoch) return std::nullopt;
  const Estimate& best = *order.best->epoch;
  Words words("time");
  if (order.best == base || contains(order.alike, base)) {
    words.say("No way is faster than ")
        .way(base->name)
        .say(", with ")
        .number(format_seconds(base->epoch->middle), base->epoch->source)
        .say(" an epoch");
    std::vector<const Way*> others = order.alike;
    if (order.best != base) others.insert(others.begin(), order.best);
    std::erase(others, base);
    if (!others.empty()) words.say(", from which ").names(others).say(" cannot be told apart");
    if (order.worst != base && !contains(order.alike, order.worst)) {
      const Estimate& worst = *order.worst->epoch;
      words.say("; ")
          .way(order.worst->name)
          .say(" takes ")
          .number(ratio_in_words(worst.middle / base->epoch->middle), worst.source)
          .say(" times as long");
    }
  } else {
    words.way(order.best->name).say(" is fastest");
    if (is_short(order, base)) add_condition(words, all);
    words.say(": ").number(format_seconds(best.middle), best.source).say(" an epoch");
    if (!is_short(order, base)) {
      words.say(", ");
      add_speed(words, best, *base, *base->epoch);
      add_price(words, *order.best, *base);
    }
    add_alike(words, order, base, " cannot be told apart from it");
  }
  add_short(words, order, all, order.short_of_target.size() == 1 ? "takes less" : "take less");
  return words.end();
}

std::optional<Sentence> bytes_sentence(const Comparison& all) {
  const Ranking order = ranking(all, &Way::bytes, {});
  const Way* base = all.baseline;
  if (!order.best || !base || !base->bytes || base->bytes->middle <= 0) return std::nullopt;
  const Estimate &best = *order.best->bytes, &other = *base->bytes;
  Words words("bytes");
  if (is_short(order, base)) {
    words.way(order.best->name).say(" sends least");
    add_condition(words, all);
    words.say(": ").number(format_bytes(best.middle), best.source).say(" an epoch from its busiest rank");
    add_alike(words, order, base, order.alike.size() == 1 ? " sends as little" : " send as little");
  } else if (best.middle >= other.middle) {
    words.say("No way sends less than ")
        .way(base->name)
        .say(", whose busiest rank sends ")
        .number(format_bytes(other.middle), other.source)
        .say(" an epoch");
    std::vector<const Way*> others = order.alike;
    if (order.best != base) others.insert(others.begin(), order.best);
    std::erase(others, base);
    if (!others.empty()) words.say("; ").names(others).say(others.size() == 1 ? " sends as much" : " send as much");
    if (order.worst->bytes->middle > other.middle * 1.05) {
      const Estimate& worst = *order.worst->bytes;
      words.say("; ")
          .way(order.worst->name)
          .say(" sends ")
          .number(ratio_in_words(worst.middle / other.middle), worst.source)
          .say(" times as much");
    }
  } else {
    words.way(order.best->name)
        .say(" sends least: ")
        .number(format_bytes(best.middle), best.source)
        .say(" an epoch from its busiest rank, ");
    const double ratio = best.middle > 0 ? other.middle / best.middle : 0;
    if (best.middle <= 0) {
      words.say("where ");
    } else if (ratio >= 1.1) {
      words.number(ratio_in_words(ratio), best.source).say(" times fewer bytes than ");
    } else {
      words.number(format_fixed(100 * (1 - best.middle / other.middle), 0), best.source).say(" % fewer bytes than ");
    }
    words.way(base->name)
        .say(best.middle <= 0 ? " sends " : " (")
        .number(format_bytes(other.middle), other.source)
        .say(best.middle <= 0 ? "" : ")");
    add_price(words, *order.best, *base);
    add_alike(words, order, base, order.alike.size() == 1 ? " sends as little" : " send as little");
  }
  add_short(words, order, all, order.short_of_target.size() == 1 ? "sends less" : "send less");
  return words.end();
}

std::optional<Sentence> accuracy_sentence(const Comparison& all) {
  const Ranking order = ranking(all, &Way::reach, time_tolerance);
  const Way* base = all.baseline;
  if (!order.best || !base || !all.target) return std::nullopt;
  const Estimate& best = *order.best->reach;
  Words words("accuracy");
  const auto target = [&] { words.number(percent(all.target->middle), all.target->source).say(" % of the test set"); };
  if (order.best == base || contains(order.alike, base)) {
    words.say("No way comes to ");
    target();
    words.say(" sooner than ")
        .way(base->name)
        .say(", after ")
        .number(format_seconds(base->reach->middle), base->reach->source)
        .say(" of training");
    std::vector<const Way*> others = order.alike;
    if (order.best != base) others.insert(others.begin(), order.best);
    std::erase(others, base);
    if (!others.empty()) words.say(", from which ").names(others).say(" cannot be told apart");
  } else {
    words.way(order.best->name).say(" comes to ");
    target();
    words.say(" first, after ").number(format_seconds(best.middle), best.source).say(" of training");
    if (base->reach) {
      words.say(": ");
      add_speed(words, best, *base, *base->reach);
    }
    add_alike(words, order, base, " cannot be told apart from it");
  }
  std::vector<const Way*> never;
  for (const Way& way : all.ways) {
    if (way.accuracy && !way.reach) never.push_back(&way);
  }
  if (!never.empty())
    words.say("; ").names(never).say(never.size() == 1 ? " does not come to it" : " do not come to it");
  return words.end();
}

std::optional<Sentence> waiting_sentence(const Comparison& all) {
  const Ranking order = ranking(all, &Way::exposed, time_tolerance);
  const Way* base = all.baseline;
  if (!order.best || !order.best->epoch || !base || !base->exposed || !base->epoch) return std::nullopt;
  Words words("waiting");
  const auto add = [&words](const Way& way) {
    const Estimate& exposed = *way.exposed;
    words.number(format_seconds(exposed.middle), exposed.source)
        .say(" an epoch (")
        .number(format_percent(exposed.middle / way.epoch->middle, 0), exposed.source)
        .say(" of it)");
  };
  if (order.best == base || contains(order.alike, base)) {
    words.say("No way waits less for its exchange than ").way(base->name).say(", ");
    add(*base);
    std::vector<const Way*> others = order.alike;
    if (order.best != base) others.insert(others.begin(), order.best);
    std::erase(others, base);
    if (!others.empty()) words.say(", from which ").names(others).say(" cannot be told apart");
  } else {
    words.way(order.best->name).say(" waits least for its exchange: ");
    add(*order.best);
    words.say(", where ").way(base->name).say(" waits ");
    add(*base);
    add_alike(words, order, base, " cannot be told apart from it");
  }
  return words.end();
}

}  // namespace ripieno::report
