// The sentences of conclusions.h, one function each; internal to report/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ripieno/report/conclusions.h"
#include "ripieno/report/ways.h"

namespace ripieno::report {

/// A cell, and what sentences need of it.
struct Way {
  std::string name;  ///< of its runs, where no other way beside it has it
  Cell cell;
  bool exact = false;
  std::uint64_t steps = 0;
  std::optional<Estimate> epoch, exposed, bytes, accuracy;
  std::optional<Estimate> reach;  ///< seconds of training to the target
};

struct Comparison {
  std::vector<Way> ways;
  const Way* baseline = nullptr;   ///< one of them
  std::optional<Estimate> target;  ///< per cent of the test set; none where nothing is tested
};

/// None where there is nothing to say.
std::optional<Sentence> time_sentence(const Comparison& all);
std::optional<Sentence> bytes_sentence(const Comparison& all);
std::optional<Sentence> accuracy_sentence(const Comparison& all);
std::optional<Sentence> waiting_sentence(const Comparison& all);

/// Which exact ways do the same arithmetic, so that accuracy is no reason to choose among them.
std::optional<Sentence> arithmetic_note(const Comparison& all);
/// What one run each can say.
std::optional<Sentence> chance_note(const Comparison& all);
/// What one worker alone takes, where `other` is of the same model, data and kind.
std::optional<Sentence> alone_note(const std::vector<Way>& ways, const Cell& other);

/// A way that is compared with no other.
Sentence run_sentence(const Way& way);
Sentence scaling_sentence(const Run& few, const Run& many);

}  // namespace ripieno::report
