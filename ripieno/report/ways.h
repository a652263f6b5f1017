// Numbers that describe a cell, with interval and source.
#pragma once

#include <optional>
#include <vector>

#include "ripieno/report/run.h"

namespace ripieno::report {

struct Estimate {
  double middle = 0;  ///< the mean over seeds
  double half = 0;    ///< half the width of its 95 % interval (Student's t); 0 for one seed
  std::size_t seeds = 0;
  Source source;  ///< in the cell's first run that has the number
};

/// What may be chance where one of two numbers is of one seed, which has no interval.
struct Tolerance {
  double relative = 0;  ///< of the larger number
  double absolute = 0;
};

/// Whether the numbers differ by more than chance: their intervals do not overlap. If one is of one seed: it is outside
/// the interval in which the other's next seed would lie (95 %, Student's t), and they differ by more than the
/// tolerance.
bool told_apart(const Estimate& a, const Estimate& b, Tolerance tolerance);

/// Seconds of training up to the end of each of rank 0's epochs, without evaluation; each epoch takes as long as on the
/// slowest worker.
std::vector<double> training_seconds(const Run& run);

/// Images that all workers together train a second: a number per seed.
std::vector<double> images_a_second(const Cell& cell);
/// Training seconds per epoch on the slowest worker, without evaluation.
std::optional<Estimate> epoch_seconds(const Cell& cell);
/// Seconds of an epoch in which workers waited for the exchange: the epoch's, times the part of all workers' own epochs
/// that they waited.
std::optional<Estimate> exposed_seconds(const Cell& cell);
/// The exchange's payload per epoch that the busiest rank sent.
std::optional<Estimate> busiest_bytes(const Cell& cell);
/// Accuracy on the test set at the end, per cent.
std::optional<Estimate> final_accuracy(const Cell& cell);
/// Seconds per epoch of evaluation, mean over workers.
std::optional<Estimate> evaluation_seconds(const Cell& cell);
/// Payload that all ranks sent for evaluation in the whole run; nullopt for runs that did not count it.
std::optional<Estimate> evaluation_bytes(const Cell& cell);

/// The highest accuracy, per cent, that all of the cell's runs reach at the end of some epoch; nullopt without
/// evaluation.
std::optional<Estimate> reached_accuracy(const Cell& cell);
/// Seconds of training up to the end of the first epoch with an accuracy of at least `percent`; nullopt if one of its
/// runs never reaches it.
std::optional<Estimate> seconds_to(const Cell& cell, double percent);

}  // namespace ripieno::report
