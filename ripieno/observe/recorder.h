// The recorder: where a rank's time and bytes are put down, a line of JSON each step and epoch in metrics-RANK.jsonl;
// the lines' bytes add up to the exchange's total and what was dropped. docs/runs.md gives the lines' fields, of schema
// `metrics_schema`. Time is measured at the learner and the strategy, bytes at the counted endpoint.
#pragma once

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ripieno/core/file.h"
#include "ripieno/core/runtime.h"
#include "ripieno/observe/ledger.h"
#include "ripieno/observe/stages.h"
#include "ripieno/observe/usage.h"

namespace ripieno::observe {

/// Raised when a line's field changes its meaning or goes; new fields and types of lines leave it as it is.
inline constexpr int metrics_schema = 1;

using StageTimes = PerStage<Duration>;

/// What a rank's metrics begin with.
struct StartRecord {
  int rank = 0, ranks = 1;
  std::string host, network;                  ///< the machine's name, and its network namespace's
  std::uint32_t first_epoch = 0, epochs = 0;  ///< from 0, and where the last one ends
  std::uint64_t steps_per_epoch = 0;
  std::optional<double> unix_time;  ///< now, in seconds since 1970; none in virtual time
};

/// One step of one rank.
struct StepRecord {
  std::uint32_t epoch = 0;  ///< from 0
  std::uint64_t step = 0;   ///< from 0, over the whole run
  double loss = 0;          ///< mean over this rank's samples
  std::uint32_t samples = 0;
  double learning_rate = 0;
  std::optional<std::int64_t> age;  ///< asynchronous strategies: updates that the weights had seen since they were read
};

/// One epoch's end.
struct EpochRecord {
  std::uint32_t epoch = 0;
  double accuracy = 0, loss = 0;  ///< of the consensus on the test set; NaN where it was not evaluated
  std::uint64_t parameters_hash = 0;
  double own_accuracy = 0;  ///< of this rank's own weights, where they differ from the consensus; else NaN
};

/// What was used since the last sample; memory: now.
struct SampleRecord {
  Duration span;
  ProcessUsage process;
  MachineUsage machine;
  NetworkUsage network;
};

/// Something that took a while: what a trace shows.
struct Span {
  const char* what;   ///< "exchange", "wait" (for a gate), "forward", ...: outlives the recorder
  std::size_t index;  ///< of the bucket or fragment that is exchanged or waited for; else of the step
  Duration begin, end;
};

/// A message that has come to its end on this rank.
struct CarriedMessage {
  const char* how;  ///< "send", "receive"; "all-reduce", of all peers at once
  int peer;         ///< -1: all
  Purpose purpose;
  std::uint32_t channel;       ///< of an exchange: the bucket
  std::string_view operation;  ///< "ring"
  std::uint64_t bytes;         ///< of payload; of an all-reduce: of the numbers
  std::uint64_t sequence;  ///< which one between the two ranks, this way and on this channel: the same on both sides
  Duration begin, end;
};

/// Whose trace it is. Its times are the rank's own plus `ahead`: those of a clock that all ranks share, up to
/// `clock_error` (membership/clocks.h).
struct TraceOptions {
  int rank = 0, ranks = 1;
  Duration ahead{0}, clock_error{0};
};

class Recorder {
 public:
  /// Writes to `metrics` where given; keeps totals in any case. `ledger` may be null (nothing is sent).
  Recorder(const Runtime& runtime, Ledger* ledger, std::unique_ptr<LineFile> metrics);

  /// The first line.
  void start(const StartRecord& record);
  /// An error where none can be thrown, in a timer, a callback or a destructor: the next step, epoch or end throws it.
  void later(std::exception_ptr error) noexcept {
    if (!later_) later_ = std::move(error);
  }
  /// Training begins now: what went before belongs to no epoch.
  void begin() { began_ = epoch_start_ = step_start_ = runtime_.now(); }
  /// When that was.
  Duration began() const { return began_; }
  /// The first so many steps are left out of rate(): before begin().
  void leave_out(std::uint64_t steps) { left_out_steps_ = steps; }
  /// Time spent since the last step's end. Called from the runtime's thread.
  void add(Stage stage, Duration time);
  /// What was exchanged since the last commit() or dropped() belongs to a step that is committed, or to an attempt that
  /// is not.
  void commit() {
    if (ledger_) ledger_->commit();
  }
  void dropped() {
    if (ledger_) ledger_->drop();
  }
  /// These and end() throw Error(io) where a line cannot be written, now or before.
  void step(const StepRecord& record);
  void epoch(const EpochRecord& record);
  void sample(const SampleRecord& record);
  /// Writes a line of the trace, where one is kept; where it cannot, the next step says so.
  void span(const Span& span);
  /// The same, of a time in which compute waited for an exchange, beside the exchanges themselves.
  void exposed(Duration begin, Duration end) {
    if (end > begin) span({"exposed", steps_, begin, end});
  }
  /// The same, of a message: with an end of an arrow, whose other end is in the trace of the peer.
  void message(const CarriedMessage& message);
  /// Keeps a trace: a file of events in the Chrome trace format, a line each; JSON once end() was called.
  void trace_to(std::unique_ptr<LineFile> trace, const TraceOptions& options);
  std::function<void(const Span&)> on_span;
  /// Also told of each step or epoch (a progress bar, a test).
  std::function<void(const StepRecord&)> on_step;
  std::function<void(const EpochRecord&)> on_epoch;

  const StageTimes& totals() const { return totals_; }
  std::uint64_t steps() const { return steps_; }
  std::uint64_t samples() const { return samples_; }
  /// Samples a second over the epochs that have ended, without their evaluation and what is left out; 0 where no time
  /// remains.
  double rate() const;
  /// Of each epoch, without its evaluation.
  const std::vector<Duration>& epoch_times() const { return epoch_times_; }
  const std::vector<EpochRecord>& epochs() const { return epochs_; }
  /// How many gradients had which age.
  const std::map<std::int64_t, std::uint64_t>& ages() const { return ages_; }
  /// An error ends training: a mark in the trace, which ends with it. Throws nothing that would stand before it.
  void failed(const std::string& what) noexcept;
  /// The last lines: what was sent since the last epoch's; the trace's end.
  void end();

 private:
  /// A line of the trace: a moment, such as an epoch's end.
  void mark(const std::string& what);
  void trace_line(const std::string& line) noexcept;
  void trace_bar(const std::string& name, std::string_view category, std::string_view thread, Duration begin,
                 Duration end);
  void trace_arrow(bool is_start, int peer, const CarriedMessage& message, std::string_view thread, Duration when);
  /// A thread of its own for each of the messages that are under way at once: bars of one thread do not overlap.
  std::string message_thread(Duration begin, Duration end);
  void throw_later() const {
    if (later_) std::rethrow_exception(later_);
  }
  double trace_time(Duration time) const { return microseconds(time + tracing_.ahead); }
  static double microseconds(Duration time) { return std::chrono::duration<double, std::micro>(time).count(); }
  /// The exchange's, since the last line.
  Traffic traffic_since();

  const Runtime& runtime_;
  Ledger* ledger_;
  std::unique_ptr<LineFile> metrics_, trace_;
  TraceOptions tracing_;
  std::vector<Duration> message_threads_;  // when the last message of each thread ended
  StageTimes pending_{}, totals_{};
  Traffic last_traffic_;
  Duration began_{0}, epoch_start_, step_start_;
  std::uint64_t steps_ = 0, samples_ = 0;
  std::uint64_t left_out_steps_ = 0, left_out_samples_ = 0;
  Duration left_out_time_{0};
  std::vector<Duration> epoch_times_;
  std::vector<EpochRecord> epochs_;
  std::map<std::int64_t, std::uint64_t> ages_;
  std::exception_ptr later_;

  friend class StageTimer;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

/// Adds the time from its making to its end to a stage, and with `shown_as` puts a span of that index into the trace;
/// of what is optimised and evaluated in any case, with the step's. It may outlive the recorder, in a coroutine that is
/// destroyed where it waited.
class StageTimer {
 public:
  StageTimer(Recorder& recorder, const Runtime& runtime, Stage stage, std::optional<std::size_t> shown_as = {})
      : recorder_(recorder),
        alive_(recorder.alive_),
        runtime_(runtime),
        stage_(stage),
        shown_as_(shown_as),
        start_(runtime.now()) {}
  ~StageTimer() {
    if (alive_.expired()) return;
    const Duration end = runtime_.now();
    recorder_.add(stage_, end - start_);
    if (shown_as_) recorder_.span({info(stage_).name, *shown_as_, start_, end});
    if (stage_ == Stage::optimise || stage_ == Stage::evaluate)
      recorder_.span({info(stage_).name, recorder_.steps(), start_, end});
    if (stage_ == Stage::exchange) recorder_.exposed(start_, end);
  }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  Recorder& recorder_;
  std::weak_ptr<const bool> alive_;
  const Runtime& runtime_;
  Stage stage_;
  std::optional<std::size_t> shown_as_;
  Duration start_;
};

}  // namespace ripieno::observe
