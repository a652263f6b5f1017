// What can be said of a cell in one number, with what is needed to compare it: its interval, and the line that it is
// from.
#pragma once

#include <optional>
#include <vector>

#include "ripieno/report/run.h"

namespace ripieno::report {

struct Estimate {
  double middle = 0;  ///< the mean over seeds
  double half = 0;    ///< half the width of its 95 % interval (Student's t); 0 of one seed
  std::size_t seeds = 0;
  Source source;  ///< of the cell's first run that has the number
};

/// Whether the numbers differ by more than chance: their intervals do not overlap. Of one seed, which has no interval,
/// by more than `tolerance` times the larger.
bool told_apart(const Estimate& a, const Estimate& b, double tolerance);

/// Seconds of training up to the end of each epoch of rank 0's, evaluation left out: each epoch as long as for the
/// slowest worker.
std::vector<double> training_seconds(const Run& run);

/// Seconds an epoch of training, on the slowest worker, evaluation left out.
std::optional<Estimate> epoch_seconds(const Cell& cell);
/// Of these, those in which a worker waited for the exchange: mean over workers.
std::optional<Estimate> exposed_seconds(const Cell& cell);
/// Payload of the exchange that the busiest rank sent an epoch.
std::optional<Estimate> busiest_bytes(const Cell& cell);
/// Of the test set at the end, per cent.
std::optional<Estimate> final_accuracy(const Cell& cell);
/// Seconds an epoch that evaluation took, mean over workers.
std::optional<Estimate> evaluation_seconds(const Cell& cell);
/// Payload that all ranks sent to evaluate, whole run; none of runs that did not count it.
std::optional<Estimate> evaluation_bytes(const Cell& cell);

/// The highest accuracy, per cent, that all of the cell's runs come to at the end of some epoch; none without
/// evaluation.
std::optional<Estimate> reached_accuracy(const Cell& cell);
/// Seconds of training up to the end of the first epoch at which so many per cent of the test set are right; none where
/// one of its runs never comes to it.
std::optional<Estimate> seconds_to(const Cell& cell, double percent);

}  // namespace ripieno::report
