// Advice for people and programs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apps/ripieno/advise.h"

namespace ripieno::program {

/// Of one question to the adviser.
struct AdviceList {
  StatedLink link;
  int workers = 0;
  std::string model, data;
  MeasuredPass pass;           ///< of a worker
  std::vector<Advice> ranked;  ///< the fastest first; one at least
  std::vector<RefusedCell> refused;
};

/// The answer in sentences, the first `top` of the ranked ones as a table, and what is not known. `refused`: with each
/// refusal's reason.
std::string advice_text(const AdviceList& list, std::size_t top, bool refused);
std::string advice_markdown(const AdviceList& list, std::size_t top);
/// All of them, a line each.
std::string advice_csv(const AdviceList& list);
std::string advice_json(const AdviceList& list);

}  // namespace ripieno::program
