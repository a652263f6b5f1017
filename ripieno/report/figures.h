// The figures of a report, each from the runs that have something to show in it; without any, a figure has no series.
#pragma once

#include "ripieno/report/figure.h"
#include "ripieno/report/run.h"

namespace ripieno::report {

/// For the first screen: seconds an epoch of each cell, computing and waiting for the exchange; MB that its busiest
/// rank sends an epoch; and accuracy over seconds of training.
Figure epoch_figure(const std::vector<Cell>& cells);
Figure sent_figure(const std::vector<Cell>& cells);
Figure progress_figure(const std::vector<Cell>& cells);

/// Accuracy of the consensus on the test set, over epochs, seconds and bytes; mean over seeds.
Figure accuracy_figure(const std::vector<Cell>& cells);
/// The mean loss of the training steps of each epoch, over the same; its caption names runs in which it was no finite
/// number.
Figure loss_figure(const std::vector<Cell>& cells);
/// What each cell sent in all against the accuracy that it reached, and the Pareto front: who sends less reaches less.
Figure bytes_figure(const std::vector<Cell>& cells);

/// A measure of each cell, as a bar.
Figure measure_figure(const std::vector<Cell>& cells, const std::string& measure, const std::string& title);

/// A step of each cell, by stage: mean over steps, workers and seeds.
Figure stages_figure(const std::vector<Cell>& cells);
/// The same of one run over time, a bar for each block of steps: means, so that a short block is no speed-up.
Figure blocks_figure(const Run& run, std::size_t steps_a_block = 20);
/// Exchange that compute waited for, and that went on beside it.
Figure exchange_figure(const std::vector<Cell>& cells);

/// Images a second over workers; all cells of a strategy, codec and model whose batch is the
/// same in all (strong scaling) or the same for each worker (weak).
Figure throughput_figure(const std::vector<Cell>& cells);
/// The same against the fewest workers that were run.
Figure speedup_figure(const std::vector<Cell>& cells);
/// Speed-up over workers.
Figure efficiency_figure(const std::vector<Cell>& cells);

/// CPU of each rank of a run over time, and of each host's whole: per cent of a core, user and system together.
Figure cpu_figure(const Run& run);
/// Bytes that each rank's interfaces sent over time (as all figures of the network count); those of the loopback where
/// there are no others.
Figure network_figure(const Run& run);
/// The packets that they sent; none over the loopback.
Figure packets_figure(const Run& run);
/// What the ranks of each run sent together, all runs one after the other on one line of time.
Figure network_timeline_figure(const std::vector<Cell>& cells);
/// Means of both over whole runs.
Figure cpu_means_figure(const std::vector<Cell>& cells);
Figure network_means_figure(const std::vector<Cell>& cells);

/// How many gradients of asynchronous strategies were how old.
Figure staleness_figure(const std::vector<Cell>& cells);

}  // namespace ripieno::report
