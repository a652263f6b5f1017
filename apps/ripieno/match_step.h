// `compare --match step=2.23s`: a worker's compute takes as long as was published, so that compute over wire does, too.
#pragma once

#include <string>
#include <vector>

#include "apps/ripieno/recipe.h"
#include "ripieno/model/zoo.h"

namespace ripieno::program {

/// The settings, KEY=VALUE each, with which one worker's step takes as long as `match` says: lab.cpu of cells in a lab,
/// simulated.slow_all of those in virtual time. One worker's step is that of batch.global, or of
/// batch.per_worker images where these are given; it is measured on this machine, or known from before
/// (kept_numbers.h). Says what it found, a line each, on standard error. Throws Error(usage): `match` is not step=TIME;
/// cells' steps differ; none of the cells is in a lab or in virtual time; this machine has too few cores for as many
/// nodes.
std::vector<std::string> matched_settings(const std::string& match, const std::vector<RecipeCell>& cells,
                                          const model::Zoo& zoo);

}  // namespace ripieno::program
