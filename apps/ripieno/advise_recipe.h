// The recipe that `ripieno advise -o` writes: the way that it ranks first, over the links that were asked for.
#pragma once

#include <string>

#include "apps/ripieno/advise_table.h"

namespace ripieno::program {

/// Which of the link's numbers the command line gave; the others are the recipe's.
struct AskedLink {
  bool rate = false, latency = false;
};

/// The first way's settings with the links that were asked for, and, if it is not a cell of the recipe's own grid, with
/// a learning rate for the images of its steps: in proportion to the recipe's, for adam, adamw and muon to the square
/// root. Comments say what was changed. `recipe`: its file, named in the first line; `base`: its settings.
std::string best_recipe(const AdviceList& list, const std::string& recipe, const Settings& base, AskedLink asked);

}  // namespace ripieno::program
