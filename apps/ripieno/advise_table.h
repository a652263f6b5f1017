// Prints advice for people and programs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apps/ripieno/advise.h"

namespace ripieno::program {

/// The answer to one question to the adviser.
struct AdviceList {
  StatedLink link;
  int workers = 0;       ///< 0: they differ, in the cells of a grid
  bool of_grid = false;  ///< cells have names of their own
  std::string model, data;
  WorkersPass pass;            ///< of a worker
  std::string doubt_of_costs;  ///< Adviser::doubt_of_costs
  double lab_burst_bytes = 0;  ///< that a lab's links of that rate would let through at once, where these do not
  std::vector<Advice> ranked;  ///< the fastest first; at least one
  std::vector<RefusedCell> refused;
};

/// The answer in sentences, the first `top` ranked ones as a table, and what is unknown. `refused`: also print each
/// refusal's reason.
std::string advice_text(const AdviceList& list, std::size_t top, bool refused);
std::string advice_markdown(const AdviceList& list, std::size_t top, bool refused);
/// All of them, one line each.
std::string advice_csv(const AdviceList& list);
std::string advice_json(const AdviceList& list);

}  // namespace ripieno::program
