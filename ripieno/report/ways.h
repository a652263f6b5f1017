// Numbers that describe a cell, with interval and source.
#pragma once

#include <optional>
#include <vector>

#include "ripieno/report/run.h"
#include "ripieno/report/statistics.h"

namespace ripieno::report {

struct Estimate {
  double middle = 0;  ///< the mean over seeds
  double half = 0;    ///< half the width of its 95 % interval (Student's t); 0 for one seed
  std::size_t seeds = 0;
  Source source = {};                    ///< in the cell's first run that has the number
  std::vector<SeedNumber> by_seed = {};  ///< each seed's number: the mean of its repeats
};

/// What part of a machine's CPU others than the run's ranks used beside them, from samples: of the machine where it was
/// most, 0 to 1; nullopt without samples.
std::optional<double> used_by_others(const Run& run);

/// Seconds of training up to the end of each of rank 0's epochs, without evaluation; each epoch takes as long as on the
/// slowest worker.
std::vector<double> training_seconds(const Run& run);

/// Images that all workers together train a second.
Estimate images_a_second(const Cell& cell);
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
