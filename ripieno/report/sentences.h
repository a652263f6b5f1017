// The sentences of conclusions.h, one function each; internal to report/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ripieno/report/conclusions.h"
#include "ripieno/report/ways.h"

namespace ripieno::report {

/// A cell with the numbers that sentences need.
struct Way {
  std::string name;  ///< its runs' name, if unique among the compared ways
  Cell cell;
  bool exact = false;
  std::uint64_t steps = 0;
  std::optional<Estimate> epoch, exposed, bytes, accuracy;
  std::optional<Estimate> reach;  ///< seconds of training to the target

  const std::optional<Estimate>& number(Quantity quantity) const;
};

/// Whether both take the same steps: those of one worker with the whole batch, from the same seeds, by the same
/// settings but for how they agree and where they run.
bool is_same_arithmetic(const Way& a, const Way& b);

struct Comparison {
  std::vector<Way> ways;
  const Way* baseline = nullptr;          ///< one of them
  std::optional<Estimate> target;         ///< per cent of the test set; nullopt if nothing is tested, or nothing learnt
  std::optional<std::size_t> some_seeds;  ///< where runs are missing: by how many seeds ways are compared
  /// Accuracies: the way with the shortest epoch, and the one that sends least, beside the baseline.
  Pairs prices = Pairs(By::difference);

  std::size_t index(const Way& way) const { return static_cast<std::size_t>(&way - ways.data()); }
};

/// The compared ways by one quantity: the best of those that reach the target, and those that beat it without reaching
/// the target; every way beside the best, and beside the baseline.
struct Ranking {
  const Way* best = nullptr;
  const Way* worst = nullptr;
  std::vector<const Way*> able, short_of_target;
  Pairs pairs;
};
Ranking ranking(const Comparison& all, Quantity quantity);

/// The comparison of these ways, with target and prices, by seeds that they have in common. At least two ways; their
/// runs must outlive it.
Comparison comparison_of(std::vector<Way> ways);

/// nullopt if there is nothing to say. `tested` grows by the pairs that it tests.
std::optional<Sentence> compared_sentence(const Comparison& all, Quantity quantity, std::size_t* tested);

/// Which exact ways do the same arithmetic, so that accuracy does not distinguish them.
std::optional<Sentence> arithmetic_note(const Comparison& all);
/// How ways were compared, `tested` pairs in all, and which have too few seeds for that.
std::vector<Sentence> seeds_notes(const Comparison& all, std::size_t tested);
/// Why these ways' experiment cannot answer its question, and what to change.
std::vector<Sentence> doubt_notes(const std::vector<Way>& ways);
/// Which ranks the way's runs lost; a note for each run that lost any.
std::vector<Sentence> losses_notes(const Way& way);
/// The time of one worker alone, if `other` is one that does the same work: model, data, kind and training.
std::optional<Sentence> alone_note(const std::vector<Way>& ways, const Cell& other);

/// The sentence about a way that is compared with no other.
Sentence run_sentence(const Way& way);
/// Of cells that differ in their workers.
Sentence scaling_sentence(const Cell& few, const Cell& many);

}  // namespace ripieno::report
