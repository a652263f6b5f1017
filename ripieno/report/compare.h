// A table of runs side by side: what each reached, how fast, where its time went and what it sent.
#pragma once

#include <string>
#include <vector>

#include "ripieno/report/summary.h"

namespace ripieno::report {

/// One row per run; runs of the same name, strategy, model, data set, size, codec and kind are seeds of one row, in
/// which "a ± b" is their mean and the half-width of its 95 % interval. Rows are in the order of their first run. ranks
/// workers, and servers on ranks of their own
///   accuracy      of the test set, per cent; loss: mean over its samples
///   s per epoch   training, the mean over epochs
///   images per s  of all ranks together
///   read .. opt.  per cent of the steps' time, over ranks
///   sent          payload of the exchange, MB (10^6 bytes) an epoch and rank; formula: the same in closed form
///   most          the same for the rank that sent most
/// Runs of one seed are repeats: their mean counts as one seed. A column whose runs agree over all seeds has no "±". If
/// the table would be wider than 140 columns, names are shortened, but not below 12. Notes at the end explain the
/// signs.
std::string compare_table(const std::vector<Summary>& summaries);

}  // namespace ripieno::report
