// A table of runs side by side: what each reached, how fast, where its time went and what it sent.
#pragma once

#include <string>
#include <vector>

#include "ripieno/report/conclusions.h"
#include "ripieno/report/summary.h"

namespace ripieno::report {

/// One row per way, the fastest first; runs of the same name, strategy, model, data set, size, codec and kind are seeds
/// of one row, in which "a ± b" is their mean and the half-width of its 95 % interval. `conclusions`, from the same
/// runs, say how much faster a way is than the one that it is compared with.
///   accuracy      of the test set, per cent; loss: mean over its samples
///   s per epoch   training, the mean over epochs
///   images per s  of all ranks together
///   read .. opt.  per cent of the steps' time, over ranks
///   MB sent       payload of the exchange, MB (10^6 bytes) an epoch: of the busiest rank, the mean of ranks (workers,
///                 and servers on ranks of their own), and that in closed form
/// Runs of one seed are repeats: their mean counts as one seed. A column whose runs agree over all seeds has no "±". If
/// the table would be wider than 140 columns, names are shortened, but not below 10. Notes at the end explain the
/// signs.
std::string compare_table(const std::vector<Summary>& summaries, const std::vector<Conclusion>& conclusions = {});

}  // namespace ripieno::report
