// The recorder writes a rank's times and bytes, as a line of JSON for each step and epoch, to metrics-RANK.jsonl. The
// lines' bytes add up to the exchange's total plus dropped traffic. docs/runs.md describes the lines' fields, of schema
// `metrics_schema`. The learner and the strategy measure time, the counted endpoint bytes.
#pragma once

#include <array>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ripieno/core/file.h"
#include "ripieno/core/runtime.h"
#include "ripieno/observe/ledger.h"
#include "ripieno/observe/stages.h"
#include "ripieno/observe/usage.h"

namespace ripieno::observe {

/// Increased when a field changes its meaning or is removed; new fields and new types of lines do not change it.
inline constexpr int metrics_schema = 1;

using StageTimes = PerStage<Duration>;

/// The start of a rank's metrics.
struct StartRecord {
  int rank = 0, ranks = 1;
  std::string host, network;                  ///< names of the machine and of its network namespace
  std::uint32_t first_epoch = 0, epochs = 0;  ///< the first epoch, from 0, and the epoch before which training ends
  std::uint64_t steps_per_epoch = 0;
  std::optional<double> unix_time;  ///< now, in seconds since 1970; nullopt in virtual time
};

/// One step of one rank.
struct StepRecord {
  std::uint32_t epoch = 0;  ///< from 0
  std::uint64_t step = 0;   ///< from 0, over the whole run
  double loss = 0;          ///< mean over this rank's samples
  std::uint32_t samples = 0;
  double learning_rate = 0;
  std::optional<std::int64_t> age;  ///< asynchronous strategies: updates of the weights since this rank read them
  bool has_loss = true;             ///< else the loss above is not known
};

/// The end of one epoch.
struct EpochRecord {
  std::uint32_t epoch = 0;
  double accuracy = 0, loss = 0;  ///< of the consensus on the test set; NaN if not evaluated
  std::uint64_t parameters_hash = 0;
  double own_accuracy = 0;  ///< of this rank's own weights, if they differ from the consensus; else NaN
  bool has_loss = true;     ///< else the loss above is not known
};

/// Usage since the last sample; memory: now.
struct SampleRecord {
  Duration span;
  ProcessUsage process;
  MachineUsage machine;
  NetworkUsage network;
  std::vector<int> waits_for;  ///< the ranks that this rank waits for now
};

/// What a resumed run goes on from: the part of its rank's metrics that came before the checkpoint.
struct EarlierPart {
  std::vector<std::string> lines;        ///< of steps, epochs and samples
  Duration time{0}, of_epoch{0};         ///< at its end: since its start, and in an epoch that goes on
  std::uint64_t steps = 0, samples = 0;  ///< that it trained
  std::vector<std::pair<Duration, std::uint64_t>> after_steps;  ///< of each step: time trained, and samples by then
  StageTimes stages{};
  std::vector<Duration> epoch_times;
  std::vector<EpochRecord> epochs;
  std::map<std::int64_t, std::uint64_t> ages;
};

/// An interval that a trace shows.
struct Span {
  const char* what;   ///< "exchange", "wait" (for a gate), "forward", ...; must outlive the recorder
  std::size_t index;  ///< the exchanged or awaited bucket or fragment; else the step
  Duration begin, end;
};

/// A message that this rank has completed.
struct CarriedMessage {
  const char* how;  ///< "send", "receive"; "all-reduce" with all peers at once
  int peer;         ///< -1: all
  Purpose purpose;
  std::uint32_t channel;       ///< for exchanges: the bucket
  std::string_view operation;  ///< "ring"
  std::uint64_t bytes;         ///< of the payload; for an all-reduce: of the numbers
  std::uint64_t
      sequence;  ///< its number between the two ranks, in this direction and on this channel: the same on both sides
  Duration begin, end;
};

/// Describes a rank's trace. Its times are the rank's own plus `ahead`, which gives a clock that all ranks share, up to
/// `clock_error` (membership/clocks.h).
struct TraceOptions {
  int rank = 0, ranks = 1;
  Duration ahead{0}, clock_error{0};
};

class Recorder {
 public:
  /// Writes to `metrics` unless null; keeps totals in any case. `ledger` may be null if nothing is sent.
  Recorder(const Runtime& runtime, Ledger* ledger, std::unique_ptr<LineFile> metrics);

  /// Writes the first line.
  void start(const StartRecord& record);
  /// Keeps an error that cannot be thrown where it happens (in a timer, callback or destructor): the next step(),
  /// epoch() or end() throws it.
  void later(std::exception_ptr error) noexcept {
    if (!later_) later_ = std::move(error);
  }
  /// Lines and totals begin with an earlier part of the run; later times count on from its end. Call it after
  /// leave_out() and before start(), with a ledger that has the earlier part's traffic.
  void go_on_from(EarlierPart earlier);
  /// The whole run's time, of this part's.
  Duration whole(Duration own) const { return own + earlier_.time; }
  /// Training begins now; earlier time belongs to no epoch.
  void begin();
  /// The time of begin().
  Duration began() const { return began_; }
  /// It is not known what is sent: lines say so, in place of 0 bytes. Call it before start().
  void leave_out_bytes() { counts_bytes_ = false; }
  /// Leaves the first so many steps out of rate(). Call it before begin().
  void leave_out(std::uint64_t steps) { left_out_steps_ = steps; }
  /// Adds time spent since the end of the last step. Call it on the runtime's thread.
  void add(Stage stage, Duration time);
  /// Traffic since the last commit() or dropped() belongs to a committed step, or to a dropped attempt.
  void commit() {
    if (ledger_) ledger_->commit();
  }
  void dropped() {
    if (ledger_) ledger_->drop();
  }
  /// These and end() throw Error(io) if a line cannot be written, or could not be before.
  void step(const StepRecord& record);
  void epoch(const EpochRecord& record);
  void sample(const SampleRecord& record);
  /// All lines so far are in the file. Call it before a checkpoint: a run that goes on from there takes its curve from
  /// this file.
  void flush() {
    if (metrics_) metrics_->flush();
  }
  /// Writes a line of the trace, if one is kept; the next step() throws an error of writing.
  void span(const Span& span);
  /// As span(), for a time in which compute waited for an exchange.
  void exposed(Duration begin, Duration end) {
    if (end > begin) span({"exposed", steps_, begin, end});
  }
  /// As span(), for a message, with one end of an arrow; the other end is in the peer's trace.
  void message(const CarriedMessage& message);
  /// Keeps a trace: a file of events in the Chrome trace format, one per line; valid JSON once end() was called.
  void trace_to(std::unique_ptr<LineFile> trace, const TraceOptions& options);
  std::function<void(const Span&)> on_span;
  /// Also called with each step and epoch (for a progress bar or a test).
  std::function<void(const StepRecord&)> on_step;
  std::function<void(const EpochRecord&)> on_epoch;

  const StageTimes& totals() const { return totals_; }
  std::uint64_t steps() const { return steps_; }
  std::uint64_t samples() const { return samples_; }
  /// Samples a second over the epochs that have ended, without their evaluation and without the steps that are left
  /// out; 0 where no time remains.
  double rate() const;
  /// The time of each epoch, without its evaluation.
  const std::vector<Duration>& epoch_times() const { return epoch_times_; }
  const std::vector<EpochRecord>& epochs() const { return epochs_; }
  /// The number of gradients by age.
  const std::map<std::int64_t, std::uint64_t>& ages() const { return ages_; }
  /// An error ends training: marks it in the trace and ends the trace. Throws nothing that would hide that error.
  void failed(const std::string& what) noexcept;
  /// Training stops, and may go on in another process: writes what is pending, and the trace's end.
  void stop();
  /// Writes the last lines: the traffic since the last epoch's line, and the trace's end.
  void end();

 private:
  /// Writes a line of the trace for a moment, such as the end of an epoch.
  void mark(const std::string& what);
  void trace_line(const std::string& line) noexcept;
  void trace_bar(const std::string& name, std::string_view category, std::string_view thread, Duration begin,
                 Duration end);
  void trace_arrow(bool is_start, int peer, const CarriedMessage& message, std::string_view thread, Duration when);
  /// The trace's thread for a message: messages in flight at once get different ones, since bars of one thread must not
  /// overlap.
  std::string message_thread(Duration begin, Duration end);
  void throw_later() const {
    if (later_) std::rethrow_exception(later_);
  }
  double trace_time(Duration time) const { return microseconds(time + tracing_.ahead); }
  static double microseconds(Duration time) { return std::chrono::duration<double, std::micro>(time).count(); }
  /// The exchange's traffic since the last line; nullopt: not known.
  std::optional<Traffic> traffic_since();
  /// Of a line that is written now, in seconds since the run's first start.
  double line_time() const { return seconds(runtime_.now() + earlier_.time); }

  const Runtime& runtime_;
  Ledger* ledger_;
  bool counts_bytes_ = true;
  std::unique_ptr<LineFile> metrics_, trace_;
  TraceOptions tracing_;
  std::vector<Duration> message_threads_;  // when the last message of each thread ended
  StageTimes pending_{}, totals_{};
  Traffic last_traffic_;
  Duration began_{0}, epoch_start_, step_start_, flushed_{0};
  std::uint64_t steps_ = 0, samples_ = 0;
  std::uint64_t left_out_steps_ = 0, left_out_samples_ = 0;
  Duration left_out_time_{0};
  std::vector<Duration> epoch_times_;
  std::vector<EpochRecord> epochs_;
  std::map<std::int64_t, std::uint64_t> ages_;
  EarlierPart earlier_;
  std::exception_ptr later_;

  friend class StageTimer;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

/// Adds the time from its construction to its destruction to a stage. With `shown_as` it also writes a span of that
/// index to the trace; for the stages optimise and evaluate always, with the step's index. It may outlive the recorder,
/// in a coroutine that is destroyed while waiting.
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
