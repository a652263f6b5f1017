#include "ripieno/report/sentences.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "ripieno/core/error.h"
#include "ripieno/report/format.h"
#include "ripieno/report/setting.h"
#include "ripieno/report/statistics.h"

namespace ripieno::report {
namespace {

constexpr Tolerance time_tolerance{.relative = 0.03};
constexpr Tolerance accuracy_tolerance{.absolute = 1};  // points
constexpr std::size_t most_names = 4;                   // listed at most

/// Builds a sentence.
class Words {
 public:
  explicit Words(std::string about) { sentence_.about = std::move(about); }
  Words& say(const std::string& words) {
    sentence_.pieces.push_back({words});
    return *this;
  }
  Words& way(const std::string& name) {
    sentence_.pieces.push_back({name, {}, true});
    return *this;
  }
  Words& number(const std::string& shown, const Source& source) {
    sentence_.pieces.push_back({shown, source});
    return *this;
  }
  /// "a", "a and b", "a, b and 3 more".
  Words& names(const std::vector<const Way*>& ways) {
    const std::size_t listed = ways.size() > most_names ? most_names - 1 : ways.size();
    for (std::size_t i = 0; i < listed; ++i) {
      if (i > 0) say(i + 1 == ways.size() ? " and " : ", ");
      way(ways[i]->name);
    }
    if (listed < ways.size()) say(text(" and ", ways.size() - listed, " more"));
    return *this;
  }
  Sentence end() {
    say(".");
    return std::move(sentence_);
  }

 private:
  Sentence sentence_;
};

using OfWay = std::optional<Estimate> Way::*;

std::string ratio_in_words(double ratio) { return format_fixed(ratio, ratio < 9.95 ? 1 : 0); }

std::string percent(double value) { return format_fixed(value, 1); }

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

/// Whether both take the same steps: those of one worker with the whole batch, from the same seeds, by the same
/// settings but for how they agree and where they run.
bool is_same_arithmetic(const Way& a, const Way& b) {
  const auto arithmetic = [](const Way& way) {
    return settings_of(way.cell.first(), {Concern::workers, Concern::rate, Concern::training});
  };
  const auto seeds = [](const Way& way) {
    std::set<std::int64_t> all;
    for (const Run* run : way.cell.runs) all.insert(run->summary.seed);
    return all;
  };
  return a.exact && b.exact && a.steps == b.steps && seeds(a) == seeds(b) && arithmetic(a) == arithmetic(b);
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

std::optional<Sentence> arithmetic_note(const Comparison& all) {
  std::vector<const Way*> alike;
  const Way* first = all.baseline && all.baseline->exact ? all.baseline : nullptr;
  double low = INFINITY, high = -INFINITY;
  for (const Way& way : all.ways) {
    if (!first || !way.accuracy || !is_same_arithmetic(way, *first)) continue;
    alike.push_back(&way);
    low = std::min(low, way.accuracy->middle);
    high = std::max(high, way.accuracy->middle);
  }
  if (alike.size() < 2) return std::nullopt;
  Words words("arithmetic");
  words.names(alike).say(" do the same arithmetic: ");
  if (percent(low) == percent(high)) {
    words.say("their accuracy is the same, ")
        .number(percent(low), alike[0]->accuracy->source)
        .say(" %; only time and bytes differ");
  } else {
    words.say("what differs in their accuracy (")
        .number(percent(low), alike[0]->accuracy->source)
        .say(" to ")
        .number(percent(high), alike.back()->accuracy->source)
        .say(" %) is the order of sums, that is, rounding");
  }
  return words.end();
}

std::optional<Sentence> chance_note(const Comparison& all) {
  std::vector<const Way*> single;
  for (const Way& way : all.ways) {
    if (way.epoch && way.epoch->seeds == 1) single.push_back(&way);
  }
  if (single.empty()) return std::nullopt;
  Words words("chance");
  if (single.size() == all.ways.size()) {
    words.say("One seed each");
  } else {
    words.say("One seed of ").names(single);
  }
  words.say(": less than 3 % of time or a point of accuracy may be chance");
  return words.end();
}

std::optional<Sentence> alone_note(const std::vector<Way>& ways, const Cell& other) {
  const Run &run = other.first(), &ours = ways[0].cell.first();
  const auto alone = epoch_seconds(other);
  const auto work = [](const Run& one) {
    std::string all = text(one.summary.model, '\n', one.summary.dataset, '\n', one.summary.kind, '\n', slowness_of(one),
                           '\n', settings_of(one, {Concern::training}));
    for (const char* key : {"lab.cpu", "simulated.image_us"}) all += '\n' + setting_value(one, key);
    return all;
  };
  if (run.workers().size() != 1 || ours.workers().size() < 2 || work(run) != work(ours) || !alone) return std::nullopt;
  const Way* best = nullptr;
  for (const Way& way : ways) {
    if (way.epoch && (!best || way.epoch->middle < best->epoch->middle)) best = &way;
  }
  if (!best) return std::nullopt;
  const double ratio = alone->middle / best->epoch->middle;
  Words words("alone");
  words.say("One worker alone (")
      .way(other.name)
      .say(") takes ")
      .number(format_seconds(alone->middle), alone->source)
      .say(" an epoch; ");
  words.way(best->name)
      .say(text(" on ", ours.workers().size(), " workers is "))
      .number(ratio_in_words(ratio), best->epoch->source)
      .say(" times as fast");
  return words.end();
}

Sentence run_sentence(const Way& way) {
  Words words("run");
  words.way(way.name);
  if (way.epoch) words.say(" took ").number(format_seconds(way.epoch->middle), way.epoch->source).say(" an epoch");
  if (way.epoch && way.exposed && way.exposed->middle > 0) {
    words.say(", ")
        .number(format_percent(way.exposed->middle / way.epoch->middle, 0), way.exposed->source)
        .say(" of it waiting for the exchange");
  }
  const bool sends = way.bytes && way.bytes->middle > 0;
  if (sends)
    words.say(way.epoch ? "; its" : "'s")
        .say(" busiest rank sent ")
        .number(format_bytes(way.bytes->middle), way.bytes->source)
        .say(" an epoch");
  if (way.accuracy) {
    words.say(way.epoch || sends ? "; it" : "")
        .say(" got ")
        .number(percent(way.accuracy->middle), way.accuracy->source)
        .say(" % of the test set right");
  }
  if (!way.epoch && !sends && !way.accuracy) words.say(" has not come to the end of an epoch");
  return words.end();
}

Sentence scaling_sentence(const Cell& few, const Cell& many) {
  const std::size_t a = few.first().workers().size(), b = many.first().workers().size();
  const double ratio = mean(images_a_second(many)) / mean(images_a_second(few));
  Words words("scaling");
  words.way(many.first().summary.name)
      .say(text(" on ", b, " workers trains "))
      .number(ratio_in_words(ratio), many.first().source({"images_per_second"}));
  words.say(text(" times as many images a second as on ", a, ": an efficiency of "));
  words.number(format_percent(ratio * static_cast<double>(a) / static_cast<double>(b), 0),
               few.first().source({"images_per_second"}));
  return words.end();
}

}  // namespace ripieno::report
