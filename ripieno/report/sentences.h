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
};

/// Whether both take the same steps: those of one worker with the whole batch, from the same seeds, by the same
/// settings but for how they agree and where they run.
bool is_same_arithmetic(const Way& a, const Way& b);

struct Comparison {
  std::vector<Way> ways;
  const Way* baseline = nullptr;   ///< one of them
  std::optional<Estimate> target;  ///< per cent of the test set; nullopt if nothing is tested
};

/// nullopt if there is nothing to say.
std::optional<Sentence> time_sentence(const Comparison& all);
std::optional<Sentence> bytes_sentence(const Comparison& all);
std::optional<Sentence> accuracy_sentence(const Comparison& all);
std::optional<Sentence> waiting_sentence(const Comparison& all);

/// Which exact ways do the same arithmetic, so that accuracy does not distinguish them.
std::optional<Sentence> arithmetic_note(const Comparison& all);
/// How far a single run of each way can be trusted.
std::optional<Sentence> chance_note(const Comparison& all);
/// Which ranks the way's runs lost; a note for each run that lost any.
std::vector<Sentence> losses_notes(const Way& way);
/// The time of one worker alone, if `other` is one that does the same work: model, data, kind and training.
std::optional<Sentence> alone_note(const std::vector<Way>& ways, const Cell& other);

/// The sentence about a way that is compared with no other.
Sentence run_sentence(const Way& way);
/// Of cells that differ in their workers.
Sentence scaling_sentence(const Cell& few, const Cell& many);

}  // namespace ripieno::report
