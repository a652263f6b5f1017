// A run's summary.json: the results of a run, in numbers. Rank 0 writes it when the run ends; reports read it.
//
//   {
//     "schema": 2,
//     "name": "ring-fp16",             of the run; runs that differ in their seed alone share it
//     "kind": "computed",              where its figures are from: "computed", "replayed" (a profile's times on a real
//                                      network), "simulated" (virtual time) or "projected" (a
//                                      profile's times in virtual time). Replayed and projected runs learn nothing
//     "route": "two-phase",            that the exchange took: what "auto" came to, too
//     "strategy": "ring", "codec": "fp16", "model": "mnist-cnn", "dataset": "digits",
//     "world_size": 4,                 ranks
//     "launcher": "srun",              what has started them: "ripieno", "mpirun (Open MPI)", ..; not in runs of
//     earlier
//                                      versions
//     "parameters": 431080,            numbers that are trained
//     "epochs": 5, "steps": 1170,      done; 1.6 where train.max_steps ended the run within an epoch. A step is a batch
//                                      of all workers together; of a server, a push
//     "seed": 0,
//     "test": {"accuracy": 0.98, "loss": 0.06},   of consensus(), accuracy from 0 to 1; null: not evaluated. In a loop
//                                      of one's own of the last epoch that it evaluated. A loss that is not a finite
//                                      number is null; one that is not known is not there.
//     "not_finite": {"rank": 0, "what": "training loss", "value": "nan", "step": 12, "epoch": 0},   the first loss that
//                                      was no finite number, both counted from 0; only where there was one
//     "seconds": {"total": 61.5,       from start to end
//                 "epoch": [12.1, ..], training of each epoch, on the slowest rank, without evaluation
//                 "stages": {"read", "forward", "backward", "exchange", "optimise", "evaluate",
//                             "exchange_hidden", "other"}},
//                                      in all, the mean over ranks; exchange: as far as compute had to wait for it,
//                                      exchange_hidden: what went on beside the others; other: what a loop of one's
//                                      own has not marked, only where there is any
//     "images_per_second": 24650.0,    trained by all ranks together, over the epochs' seconds, but for
//     "steps_left_out": 4,             each worker's first steps (measure.skip_steps); only where there are any
//     "bytes": {"payload_sent", "payload_received", "framing_sent", "framing_received"},
//                                      of the whole run, summed over ranks, for every purpose; here, below and in ranks
//                                      null where they are not known: over a backend that is not Ripieno's
//     "exchange": {"payload_sent": 1}, of the whole run, summed over ranks, for the exchange alone; along the route
//                                      native what MPI was handed
//     "evaluation": {"payload_sent": 1},  the same for evaluation alone; not in runs of earlier versions
//     "closed_form": {"payload_sent": 1},  what the formula says of the exchange for one whole epoch, summed over
//                                      ranks; null where the bytes depend on data or timing
//     "checkpoints": {"count": 3, "seconds": 1.2},   that rank 0 saved on the way, and how long that took; not in runs
//                                      of earlier versions
//     "ranks": [{"rank": 0, "host": "node1",   where it ran; not in runs of earlier versions
//                "test": .., "seconds": .., "images_per_second": .., "bytes": ..,   as above, of this rank
//                "exchange": {"payload_sent": 1},   of this rank, for the exchange alone. A worker's upload to a server
//                                      or cloud is what the report by Cheng (2020) counts: rounds x model size
//                "evaluation": {"payload_sent": 1},
//                "own_accuracy": 0.97, of its own weights, where they are not the consensus; else null
//                "bytes_read": 1,      from the data set's files
//                "process": {"cpu_user_s": 58.1, "cpu_system_s": 0.4,   of its process, from start to end; not in
//                            "proportional_bytes": 1, "peak_resident_bytes": 1},   simulated runs. Memory: at the end,
//                                      pages that processes share counted as shares; the most at once, counted in full
//                "machine_busy": 0.97, of its machine's CPU time while it trained, what was used by anybody; not in
//                                      simulated runs nor without samples
//                "parameters_hash": "9f86d081884c7d65",   of its weights at the end, 16 hexadecimal digits
//                "ways": ["", "shared memory", "tcp (another host)"],   how it reached each rank
//                "staleness": {"0": 12, "1": 3}}]         asynchronous strategies: age in steps -> how many updates
//   }
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ripieno/observe/stages.h"

namespace ripieno::report {

struct TestResult {
  double accuracy = 0;         ///< 0 .. 1
  std::optional<double> loss;  ///< mean over samples; NaN if not finite; nullopt if not known
};

using StageSeconds = observe::PerStage<double>;

struct RunSeconds {
  double total = 0;
  std::vector<double> epoch;
  StageSeconds stages;
};

struct ByteCounts {
  std::uint64_t payload_sent = 0, payload_received = 0, framing_sent = 0, framing_received = 0;
};

/// Resources used by a rank's process.
struct ProcessUse {
  double cpu_user_s = 0, cpu_system_s = 0;
  std::uint64_t proportional_bytes = 0, peak_resident_bytes = 0;  ///< 0 if unknown
};

/// The first loss of a run that was not a finite number.
struct NotFinite {
  int rank = 0;
  std::string what, value;  ///< "training loss" or "test loss"; "nan", "inf" or "-inf"
  std::uint64_t step = 0;   ///< from 0; for a test loss, the last step before it
  std::uint32_t epoch = 0;  ///< from 0
};
/// "the training loss of rank 0 was nan at step 12, in epoch 1"
std::string described(const NotFinite& found);

/// Saved on the way, without the one at the end.
struct Checkpoints {
  std::uint64_t count = 0;
  double seconds = 0;
};

struct RankSummary {
  int rank = 0;  ///< of a rank that died there is no summary
  std::optional<TestResult> test;
  RunSeconds seconds;
  double images_per_second = 0;
  ByteCounts bytes;
  std::uint64_t exchange_payload_sent = 0;
  std::optional<std::uint64_t>
      dropped_payload_sent;  ///< the exchange's, in dropped attempts, which the field above excludes
  std::optional<std::uint64_t> evaluation_payload_sent;
  std::optional<double> own_accuracy;
  std::uint64_t bytes_read = 0;
  std::optional<ProcessUse> process;
  std::optional<double> machine_busy;
  std::uint64_t parameters_hash = 0;
  std::optional<std::map<std::int64_t, std::uint64_t>> staleness;
  std::vector<std::string> ways;
  std::string host;  ///< "": not known, as Summary::launcher
};

/// The fields are those described above.
struct Summary {
  /// Whether some rank's machine was so busy that a replay's waits, which use no CPU, cannot have been accurate.
  bool is_crowded() const;
  /// Whether the exchange's payload was handed to MPI's own operations, so that it is not known what they sent.
  bool hands_over() const { return route == "native"; }
  /// Whether it is known what the exchange sent.
  bool knows_sent() const { return counts_bytes && !hands_over(); }
  /// Megabytes of the exchange's payload, one of the counts below; nullopt if it is not known what was sent.
  std::optional<double> megabytes_sent(std::uint64_t payload) const {
    return knows_sent() ? std::optional(1e-6 * static_cast<double>(payload)) : std::nullopt;
  }
  /// Training seconds of a whole epoch, the mean over the run; nullopt if none was timed. An epoch that train.max_steps
  /// ended counts as the part that it is.
  std::optional<double> epoch_seconds() const;
  /// The exchange's payload that the busiest rank sent in the whole run; 0 without ranks.
  std::uint64_t sent_by_the_busiest() const;
  /// "2 on node1, 2 on node2": how many ranks ran where; "": not known.
  std::string hosts() const;
  /// "it lost rank 2 of 4 on the way": the ranks without which the others went on; "": none.
  std::string losses() const;

  std::string name;
  std::string kind = "computed";
  std::string strategy, route, codec, model, dataset;
  std::string launcher;
  int world_size = 0;
  std::uint64_t parameters = 0;
  double epochs = 0;  ///< whole, unless the run ended within one; of an unfinished run too
  std::uint64_t steps = 0;
  std::uint64_t steps_left_out = 0;  ///< of each worker's rate, the first
  std::int64_t seed = 0;
  std::optional<TestResult> test;
  RunSeconds seconds;
  double images_per_second = 0;
  bool counts_bytes = true;  ///< else all counts of bytes, here and of the ranks, are 0 and mean nothing
  ByteCounts bytes;
  std::uint64_t exchange_payload_sent = 0;
  std::optional<std::uint64_t> evaluation_payload_sent;
  std::optional<std::uint64_t> closed_form_payload_sent;
  std::vector<RankSummary> ranks;
  std::optional<NotFinite> not_finite;
  std::optional<Checkpoints> checkpoints;
  bool unfinished = false;  ///< made from the files of a run without a summary
};

/// The mark after a cell's name if its figures do not come from training: " ~" simulated, " =" replayed, " =!" replayed
/// on a crowded machine, " ~=" projected; then " …" if the run did not finish.
std::string mark_of(const std::vector<const Summary*>& seeds);

/// A key that runs share if they differ only in their seed: name, strategy, model, data, ranks, codec, kind, and
/// whether they finished.
std::string cell_of(const Summary& summary);

/// Indented by two spaces per level, with a final line break.
std::string to_json(const Summary& summary);

/// Throws Error(data), with `file`, the field ("ranks[2].seconds.epoch[0]"), the expected and the found value. Skips
/// unknown fields.
Summary from_json(std::string_view json, const std::filesystem::path& file);

/// Throws Error(io) if the file cannot be read, and as from_json().
Summary read_summary(const std::filesystem::path& file);

}  // namespace ripieno::report
