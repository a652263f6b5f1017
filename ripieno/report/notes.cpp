// The notes of sentences.h, and the sentences about ways that are compared with no other.
#include <algorithm>
#include <cmath>
#include <set>

#include "ripieno/core/error.h"
#include "ripieno/report/format.h"
#include "ripieno/report/sentences.h"
#include "ripieno/report/setting.h"
#include "ripieno/report/statistics.h"
#include "ripieno/report/words.h"

namespace ripieno::report {

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

std::vector<Sentence> losses_notes(const Way& way) {
  std::vector<Sentence> notes;
  for (const Run* run : way.cell.runs) {
    const std::string losses = run->summary.losses();
    if (losses.empty()) continue;
    Words words("losses");
    words.way(way.name);
    if (way.cell.runs.size() > 1) words.say(text(", seed ", run->summary.seed));
    words.say(": ").number(losses, run->source({"ranks"}));
    notes.push_back(words.end());
  }
  return notes;
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
  words.way(best->name).say(text(" on ", ours.workers().size(), " workers "));
  if (!told_apart(*alone, *best->epoch, time_tolerance)) {
    words.say("(")
        .number(format_seconds(best->epoch->middle), best->epoch->source)
        .say(") cannot be told apart from it");
  } else {
    words.say("is ").number(ratio_in_words(ratio), best->epoch->source).say(" times as fast");
  }
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
  const auto estimate = [](const Cell& cell) {
    const std::vector<double> seeds = images_a_second(cell);
    return Estimate{mean(seeds), interval95(seeds), seeds.size(), cell.first().source({"images_per_second"})};
  };
  const Estimate with_few = estimate(few), with_many = estimate(many);
  const double ratio = with_many.middle / with_few.middle;
  Words words("scaling");
  words.way(many.first().summary.name)
      .say(text(" on ", b, " workers trains "))
      .number(ratio_in_words(ratio), with_many.source);
  words.say(text(" times as many images a second as on ", a, ": an efficiency of "));
  words.number(format_percent(ratio * static_cast<double>(a) / static_cast<double>(b), 0), with_few.source);
  if (!told_apart(with_few, with_many, time_tolerance)) words.say("; that they differ may be chance");
  return words.end();
}

}  // namespace ripieno::report
