// The notes of sentences.h, and the sentences about ways that are compared with no other.
#include <algorithm>
#include <set>

#include "ripieno/core/error.h"
#include "ripieno/report/sentences.h"
#include "ripieno/report/setting.h"

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
  const Way* first = all.baseline && all.baseline->exact ? all.baseline : nullptr;
  Statement statement{.kind = Statement::Kind::same_arithmetic, .quantity = Quantity::accuracy, .is_nearly = true};
  const Way *lowest = first, *highest = first;
  for (const Way& way : all.ways) {
    if (!first || !way.accuracy || !is_same_arithmetic(way, *first)) continue;
    statement.subjects.push_back(way.name);
    if (way.accuracy->middle < lowest->accuracy->middle) lowest = &way;
    if (way.accuracy->middle > highest->accuracy->middle) highest = &way;
    const bool alike = way.bytes && first->bytes && way.bytes->middle == first->bytes->middle;
    statement.is_nearly = statement.is_nearly && alike;
  }
  if (statement.subjects.size() < 2) return std::nullopt;
  statement.object = first->name;
  for (const Way* way : {lowest, highest}) statement.values.push_back({way->accuracy->middle, way->accuracy->source});
  return sentence_of("arithmetic", {statement});
}

std::vector<Sentence> seeds_notes(const Comparison& all, std::size_t tested) {
  if (!all.baseline || !all.baseline->epoch) return {};
  std::vector<Sentence> notes;
  Statement few{.kind = Statement::Kind::one_seed};
  std::size_t most = 1, single = 0;
  for (const Way& way : all.ways) {
    if (!way.epoch) continue;
    single += way.epoch->seeds == 1;
    if (&way == all.baseline) continue;
    const std::size_t seeds = paired(*way.epoch, *all.baseline->epoch, By::ratio).seeds;
    most = std::max(most, seeds);
    if (seeds < 2) few.subjects.push_back(way.name);
  }
  if (tested > 0) {
    Statement statement{.kind = Statement::Kind::tested};
    statement.values = {{static_cast<double>(most), {}}, {static_cast<double>(tested), {}}};
    notes.push_back(sentence_of("seeds", {statement}));
  }
  if (all.some_seeds) {
    Statement statement{.kind = Statement::Kind::some_seeds};
    statement.values = {{static_cast<double>(*all.some_seeds), {}}};
    notes.push_back(sentence_of("seeds", {statement}));
  }
  if (few.subjects.empty()) return notes;
  if (single == all.ways.size()) few.subjects.clear();
  notes.push_back(sentence_of("seeds", {few}));
  return notes;
}

std::vector<Sentence> losses_notes(const Way& way) {
  std::vector<Sentence> notes;
  for (const Run* run : way.cell.runs) {
    Statement statement{.kind = Statement::Kind::lost, .subjects = {way.name}, .words = run->summary.losses()};
    if (statement.words.empty()) continue;
    if (way.cell.runs.size() > 1) statement.object = text(", seed ", run->summary.seed);
    statement.values = {{0, run->source({"ranks"})}};
    notes.push_back(sentence_of("losses", {statement}));
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
  if (!best || best->epoch->middle <= 0) return std::nullopt;
  const Estimate& together = *best->epoch;
  const Paired pair = paired(*alone, together, By::ratio);
  Statement statement{.kind = Statement::Kind::alone, .subjects = {other.name}, .object = best->name};
  statement.values = {{alone->middle, alone->source},
                      {together.middle, together.source},
                      {pair.is_ratio ? pair.effect : alone->middle / together.middle, together.source},
                      {static_cast<double>(ours.workers().size()), together.source}};
  statement.is_ranked = pair.is_ranked;
  statement.seeds = pair.seeds;
  return sentence_of("alone", {statement});
}

Sentence run_sentence(const Way& way) {
  Statement statement{.kind = Statement::Kind::took, .subjects = {way.name}};
  const auto add = [&](Quantity quantity, const std::optional<Estimate>& number) {
    if (!number) return;
    statement.quantities.push_back(quantity);
    statement.values.push_back({number->middle, number->source});
  };
  add(Quantity::epoch, way.epoch);
  if (way.epoch && way.exposed && way.exposed->middle > 0) add(Quantity::waiting, way.exposed);
  if (way.bytes && way.bytes->middle > 0) add(Quantity::bytes, way.bytes);
  add(Quantity::accuracy, way.accuracy);
  return sentence_of("run", {statement});
}

Sentence scaling_sentence(const Cell& few, const Cell& many) {
  const auto workers = [](const Cell& cell) { return static_cast<double>(cell.first().workers().size()); };
  const Estimate with_few = images_a_second(few), with_many = images_a_second(many);
  const Paired pair = paired(with_many, with_few, By::ratio);
  const double ratio = pair.is_ratio ? pair.effect : with_many.middle / with_few.middle;
  Statement statement{
      .kind = Statement::Kind::scales, .quantity = Quantity::images, .subjects = {many.first().summary.name}};
  statement.object = few.first().summary.name;
  statement.values = {{workers(many), with_many.source},
                      {workers(few), with_few.source},
                      {ratio, with_many.source},
                      {ratio * workers(few) / workers(many), with_few.source}};
  statement.is_ranked = pair.is_ranked;
  statement.seeds = pair.seeds;
  return sentence_of("scaling", {statement});
}

}  // namespace ripieno::report
