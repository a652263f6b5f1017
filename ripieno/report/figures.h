// The figures of a report. Each uses the runs that have data for it; without any, it has no series.
#pragma once

#include <cstdint>

#include "ripieno/report/figure.h"
#include "ripieno/report/run.h"

namespace ripieno::report {

/// For the first screen: each cell's seconds per epoch (computing and waiting for the exchange), MB per epoch sent by
/// its busiest rank, and accuracy over seconds of training. Whiskers of bars are 95 % intervals of the difference from
/// the `baseline`, seed by seed; without one, of the mean.
Figure epoch_figure(const std::vector<Cell>& cells, const Cell* baseline = nullptr);
Figure sent_figure(const std::vector<Cell>& cells, const Cell* baseline = nullptr);
Figure progress_figure(const std::vector<Cell>& cells);

/// Accuracy of the consensus on the test set, over epochs, seconds and bytes; mean over seeds.
Figure accuracy_figure(const std::vector<Cell>& cells);
/// The mean loss of the training steps of each epoch, over the same axes; its caption names runs in which a loss was
/// not finite.
Figure loss_figure(const std::vector<Cell>& cells);
/// The bytes that each cell sent in all against the accuracy that it reached, with the Pareto front: no cell sends less
/// and reaches more.
Figure bytes_figure(const std::vector<Cell>& cells);

/// A measure of each cell, as a bar.
Figure measure_figure(const std::vector<Cell>& cells, const std::string& measure, const std::string& title);

/// A step of each cell, by stage: mean over steps, workers and seeds.
Figure stages_figure(const std::vector<Cell>& cells);
/// The same for one run over time, a bar for each block of steps. Bars are means, so that a short last block does not
/// look faster.
Figure blocks_figure(const Run& run, std::size_t steps_a_block = 20);
/// The exchange time that compute waited for, and the time hidden behind compute.
Figure exchange_figure(const std::vector<Cell>& cells);

/// Images per second over workers, for cells of one strategy, codec and model with the same global batch (strong
/// scaling) or the same batch per worker (weak scaling).
Figure throughput_figure(const std::vector<Cell>& cells);
/// The same relative to the smallest number of workers that was run.
Figure speedup_figure(const std::vector<Cell>& cells);
/// Speed-up over workers.
Figure efficiency_figure(const std::vector<Cell>& cells);

/// CPU of each rank of a run, and of each whole host, over time: per cent of a core, user and system together.
Figure cpu_figure(const Run& run);
enum class Direction : std::uint8_t { sent, received };
/// Bytes that each rank's network interfaces sent or received over time; what the loopback sent if there are no others
/// (it receives the same).
Figure network_figure(const Run& run, Direction direction = Direction::sent);
/// Packets, likewise; not the loopback's.
Figure packets_figure(const Run& run, Direction direction = Direction::sent);
/// Bytes that all ranks of each run sent together, with the runs one after the other on one time axis.
Figure network_timeline_figure(const std::vector<Cell>& cells);
/// Means of CPU and network over whole runs.
Figure cpu_means_figure(const std::vector<Cell>& cells);
Figure network_means_figure(const std::vector<Cell>& cells);

/// The number of gradients by age, for asynchronous strategies.
Figure staleness_figure(const std::vector<Cell>& cells);

}  // namespace ripieno::report
