#include "apps/ripieno/rank.h"

#include <asio/ip/host_name.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "apps/ripieno/choose_exchange.h"
#include "apps/ripieno/data_check.h"
#include "apps/ripieno/earlier_part.h"
#include "apps/ripieno/interruption.h"
#include "apps/ripieno/job.h"
#include "apps/ripieno/rank_states.h"
#include "apps/ripieno/rank_summary.h"
#include "apps/ripieno/replay.h"
#include "ripieno/core/async.h"
#include "ripieno/core/file.h"
#include "ripieno/launch/local.h"
#include "ripieno/membership/clocks.h"
#include "ripieno/numeric/elementwise.h"
#include "ripieno/observe/usage.h"
#include "ripieno/observe/usage_sampler.h"
#include "ripieno/report/format.h"
#include "ripieno/strategy/pauses.h"
#include "ripieno/train/checkpoint.h"
#include "ripieno/train/torch_learner.h"

namespace ripieno::program {
namespace {

constexpr Duration most_clock_error = std::chrono::milliseconds(2);

/// Traces an endpoint's messages for as long as it lives.
class MessageTrace {
 public:
  MessageTrace(transport::CountedEndpoint& endpoint, observe::Recorder& recorder) : endpoint_(endpoint) {
    endpoint.on_message = [&recorder](const observe::CarriedMessage& message) { recorder.message(message); };
  }
  ~MessageTrace() { endpoint_.on_message = {}; }
  MessageTrace(const MessageTrace&) = delete;
  MessageTrace& operator=(const MessageTrace&) = delete;

 private:
  transport::CountedEndpoint& endpoint_;
};

/// The parts of run_rank(), in order.
class RankRun {
 public:
  RankRun(RankTask task, const model::Zoo& zoo, std::shared_ptr<transport::CountedEndpoint> endpoint)
      : task_(std::move(task)),
        zoo_(zoo),
        endpoint_(std::move(endpoint)),
        runtime_(endpoint_->runtime()),
        comm_(group_of(task_.settings, endpoint_)),
        states_(task_.settings, task_.folder, endpoint_) {}

  Task<> settle();
  Task<> prepare();
  Task<> train();
  report::Summary finish();

  Task<> leave();

  const collective::Communicator& comm() const { return comm_; }

 private:
  int rank() const { return endpoint_->rank(); }
  bool survives() const { return strategy_of(task_.settings).traits.survives && !runtime_.is_virtual(); }
  void note(const std::string& what) const { task_.report({{"type", "note"}, {"text", what}}); }
  Task<std::optional<strategy::ComputeProfile>> replayed();
  Task<> begin_trace();
  void open_saved();
  void go_on_from_metrics();
  void check_steps();
  void go_on_with(const collective::Communicator& alive);
  void checkpoint(std::uint32_t epoch);
  void save(strategy::Point point);
  void save_later();
  [[noreturn]] void stopped(int signal);
  Task<> save_missing_states();
  /// Whether a run can be saved before its end.
  bool can_pause() const { return keeps_weights() && !strategy_of(task_.settings).traits.own_pace; }
  /// A replay learns nothing worth saving.
  bool keeps_weights() const { return !task_.settings->compute.replayed; }
  /// A run that was cut within an epoch cannot be resumed.
  bool saves_at_end() const { return keeps_weights() && plan_.max_steps == 0; }

  RankTask task_;
  const model::Zoo& zoo_;
  const std::shared_ptr<transport::CountedEndpoint> endpoint_;
  Runtime& runtime_;
  const Duration start_ = runtime_.now();
  collective::Communicator comm_;  // of the ranks that are left
  RankStates states_;
  strategy::Plan plan_;
  std::uint32_t epochs_done_ = 0;
  report::Checkpoints checkpoints_;
  std::optional<Runtime::Timer> next_save_;
  std::optional<observe::Recorder> recorder_;
  std::unique_ptr<train::TorchLearner> learner_;
  std::optional<MessageTrace> messages_;
  std::optional<strategy::Pauses> pauses_;
  std::unique_ptr<strategy::Strategy> strategy_;
  std::optional<RankProgress> progress_;
  std::optional<double> machine_busy_;
  std::optional<Interruption> interruption_;  // from training on: who has trained to the end, writes that
};

/// Compares the data, then measures the links and chooses what the recipe leaves to them, before anything depends on
/// it; then the ranks check that they agree. On everything else they have agreed when they met.
Task<> RankRun::settle() {
  if (!runtime_.is_virtual()) co_await check_same_data(task_.settings, comm_);
  if (task_.settings->measure == MeasureLinks::off) co_return;
  const std::string asked = task_.settings.to_toml();
  const std::string chosen = co_await choose_exchange(&task_.settings, &zoo_, comm_);
  if (rank() == 0 && !chosen.empty()) {
    if (!std::filesystem::exists(task_.folder.asked())) write_file(task_.folder.asked(), asked);
    write_file(task_.folder.config(), task_.settings.to_toml());
    note(chosen);
  }
  const std::vector<std::uint64_t> digests = co_await comm_.all_gather(task_.settings.digest());
  for (std::size_t peer = 0; peer < digests.size(); ++peer) {
    if (digests[peer] == digests[0]) continue;
    fail(ErrorKind::mismatch, "rank ", peer, " has chosen another exchange (settings of digest ", digests[peer],
         ") than rank 0 (", digests[0], "): set exchange.measure = off and give its keys");
  }
}

Task<> RankRun::prepare() {
  const std::string& precision = task_.settings->compute.precision;
  if (rank() == 0 && task_.settings->compute.device == "cpu" &&
      !train::has_instructions(train::find_precision(precision))) {
    note("this processor has no instructions for " + precision + ": train.precision = fp32 is faster here");
  }
  const strategy::StrategyInfo& info = strategy_of(task_.settings);
  plan_ = strategy::settled(info, plan_of(task_.settings), comm_);
  recorder_.emplace(runtime_, &endpoint_->ledger(), std::make_unique<LineFile>(task_.folder.metrics(rank())));
  const std::optional<strategy::ComputeProfile> replay = co_await replayed();
  learner_ = make_learner(task_.settings, zoo_, rank(), task_.local_rank, runtime_, *recorder_, comm_.memory(), replay);
  add_model(&plan_, task_.settings, *learner_);
  if (task_.resume) open_saved();
  check_steps();
  if (task_.settings->run.trace) co_await begin_trace();
  strategy::Workplace place{comm_, *learner_, *recorder_, [this](std::uint32_t epoch) { checkpoint(epoch); }, {}};
  if (survives()) place.goes_on_with = [this](const collective::Communicator& alive) { go_on_with(alive); };
  if (can_pause()) {
    const auto save_here = [this](strategy::Point point) { save(point); };
    pauses_.emplace(comm_, strategy::Point{plan_.first_epoch, plan_.first_step}, save_here);
    place.pauses = &*pauses_;
  }
  strategy_ = strategy::make_strategy(info, plan_, std::move(place));
  states_.hold(*learner_, *strategy_);
  if (task_.resume) co_await states_.restore(comm_);
  if (task_.resume) go_on_from_metrics();
  const TrainedRank who{rank(), task_.settings->workers, learner_->steps_per_epoch(), keeps_weights()};
  progress_.emplace(*recorder_, runtime_, plan_, who, task_.report, [this] { return endpoint_->awaited(); });
}

/// Where a rate would have no steps left, or workers would never exchange, it is said before the work is done.
void RankRun::check_steps() {
  const std::uint64_t wanted = task_.settings->run.left_out_steps, apart = plan_.local.steps;
  std::uint64_t steps = std::uint64_t{learner_->steps_per_epoch()} * plan_.epochs;
  if (plan_.max_steps > 0) steps = std::min<std::uint64_t>(steps, plan_.max_steps);
  if (wanted > 0 && wanted >= steps && steps > 0) {
    fail(ErrorKind::usage, task_.settings.shown("measure.skip_steps"), " leaves none of the ", steps,
         " steps of this run to measure; give less, or train for longer");
  }
  if (strategy_of(task_.settings).traits.local_steps && apart > steps && steps > 0) {
    if (rank() == 0)
      note(text(task_.settings.shown("local.steps"), " is more than the ", steps,
                " steps of this run: workers never exchange before its end"));
  }
  recorder_->leave_out(wanted);
}

/// Without the others of comm_, which are lost. Rank 0 saves states for them, so that the run can be resumed with all.
void RankRun::go_on_with(const collective::Communicator& alive) {
  std::string lost;
  for (int i = 0, left = 0; i < comm_.size(); ++i) {
    const int member = comm_.member(i);
    if (left < alive.size() && alive.member(left) == member) {
      ++left;
      continue;
    }
    lost += text(lost.empty() ? "rank " : " and rank ", member);
    if (rank() == 0) states_.take_over(member);
  }
  comm_ = alive;
  if (pauses_) pauses_->go_on_with(alive);
  if (rank() == 0) note(text(lost, " lost: ", alive.size(), " of ", endpoint_->size(), " ranks go on"));
}

Task<std::optional<strategy::ComputeProfile>> RankRun::replayed() {
  if (!task_.settings->compute.replayed) co_return std::nullopt;
  if (task_.profile) co_return task_.profile(task_.settings);
  const KeptProfile kept = co_await common_profile(task_.settings, &zoo_, comm_);
  if (const std::string doubt = doubt_of(kept); !doubt.empty()) note(doubt);
  co_return kept.profile;
}

void RankRun::open_saved() {
  const strategy::Point saved = states_.open(*task_.resume, plan_.epochs);
  plan_.first_epoch = saved.epoch;
  plan_.first_step = saved.step;
  epochs_done_ = saved.epoch;
  if (saved.epoch == plan_.epochs && rank() == 0) {
    note(text("all ", plan_.epochs, " epochs are done: writes the model and the summary; to train on, raise ",
              "train.epochs with --set train.epochs=N"));
  }
}

/// Its curve is this run's. Without it the run goes on all the same.
void RankRun::go_on_from_metrics() {
  const std::filesystem::path metrics = open_run(*task_.resume).metrics(rank());
  if (!std::filesystem::exists(metrics)) return;  // of a rank that was lost on a host that shares no folder
  try {
    recorder_->go_on_from(earlier_part(metrics, {plan_.first_epoch, plan_.first_step}));
  } catch (const Error& error) {
    note(text(error.what(), ": this run's curve begins where it goes on"));
  }
}

Task<> RankRun::begin_trace() {
  membership::ClockOffset clock;  // in virtual time all ranks share one clock
  if (!runtime_.is_virtual())
    clock = co_await membership::clock_offset(endpoint_, comm_.channel(comm_.take_channels(), observe::Purpose::setup));
  if (clock.error > most_clock_error) {
    note(text("rank ", rank(), "'s clock is known to ", report::format_seconds(seconds(clock.error)),
              " alone, half of the quickest round trip to rank 0: in the trace its times may be off by that"));
  }
  recorder_->trace_to(std::make_unique<LineFile>(task_.folder.trace(rank())),
                      {rank(), endpoint_->size(), clock.ahead, clock.error});
  messages_.emplace(*endpoint_, *recorder_);
}

void RankRun::checkpoint(std::uint32_t epoch) {
  const std::uint32_t every = keeps_weights() ? static_cast<std::uint32_t>(task_.settings->run.checkpoint_every) : 0;
  const std::uint32_t before = std::exchange(epochs_done_, epoch + 1);
  const bool at_end = epochs_done_ == plan_.epochs && plan_.max_steps == 0;  // the end is saved separately
  if (every > 0 && epochs_done_ / every > before / every && !at_end) save({epochs_done_, 0});
}

void RankRun::save(strategy::Point point) {
  const Duration start = runtime_.now();
  recorder_->flush();
  states_.save(point);
  ++checkpoints_.count;
  checkpoints_.seconds += seconds(runtime_.now() - start);
  save_later();
}

/// Rank 0 has all ranks save from time to time, so seldom that it takes at most a hundredth of the time.
void RankRun::save_later() {
  const Duration least = task_.settings->run.checkpoint_between;
  if (next_save_) runtime_.cancel(*std::exchange(next_save_, std::nullopt));
  if (rank() != 0 || !pauses_ || runtime_.is_virtual() || least.count() == 0) return;
  const double one = checkpoints_.count > 0 ? checkpoints_.seconds / static_cast<double>(checkpoints_.count) : 0;
  const auto ask = [this] {
    next_save_.reset();
    pauses_->ask_to_save();
  };
  next_save_ = runtime_.call_at(runtime_.now() + std::max(least, from_seconds(100 * one)), ask);
}

/// All ranks have saved.
void RankRun::stopped(int signal) {
  messages_.reset();
  recorder_->stop();
  task_.report({{"type", "stopped"}, {"signal", signal}});
  throw launch::Interrupted(signal);
}

Task<> RankRun::train() {
  recorder_->start({rank(), endpoint_->size(), asio::ip::host_name(), observe::network_namespace(), plan_.first_epoch,
                    plan_.epochs, learner_->steps_per_epoch(),
                    runtime_.is_virtual() ? std::optional<double>() : unix_time()});
  std::optional<observe::UsageSampler> sampler;
  const Duration between = task_.settings->run.sample_every;
  if (between.count() > 0 && !runtime_.is_virtual())
    sampler.emplace(runtime_, *recorder_, between, [this] { return endpoint_->awaited(); });
  if (survives()) task_.report({{"type", "survives"}});
  const auto stop = [this](int signal) {
    if (runtime_.is_virtual()) task_.report({{"type", "interrupted"}, {"signal", signal}});
    pauses_->ask_to_stop(signal);
  };
  if (pauses_) interruption_.emplace(runtime_, task_.has_launcher, stop);
  save_later();
  try {
    co_await strategy_->run();
  } catch (const std::exception& error) {
    if (next_save_) runtime_.cancel(*next_save_);
    if (pauses_ && pauses_->stopped_by() > 0) stopped(pauses_->stopped_by());
    recorder_->failed(error.what());
    throw;
  }
  if (next_save_) runtime_.cancel(*next_save_);
  if (sampler) machine_busy_ = sampler->machine_busy();
}

/// Saves the trained model.
report::Summary RankRun::finish() {
  // Before the consensus is taken: if workers' parameters differ, each resumes from its own.
  recorder_->flush();
  if (saves_at_end()) states_.save({plan_.epochs, 0});
  numeric::convert(learner_->parameters(), strategy_->consensus());
  if (strategy_->consensus_buffers().count > 0) numeric::convert(learner_->buffers(), strategy_->consensus_buffers());
  if (keeps_weights() && rank() == 0) train::save_tensors(task_.folder.model(), train::state_dict(learner_->model()));
  report::Summary summary = summarise(task_.settings, plan_, rank(), *learner_, *recorder_, endpoint_->ledger(),
                                      learner_->parameters(), seconds(recorder_->whole(runtime_.now() - start_)));
  summary.ranks[0].machine_busy = machine_busy_;
  summary.not_finite = progress_->not_finite();
  if (rank() == 0 && can_pause()) summary.checkpoints = checkpoints_;
  for (int peer = 0; peer < endpoint_->size(); ++peer) {
    summary.ranks[0].ways.push_back(peer == rank() ? "" : endpoint_->way(peer));
  }
  messages_.reset();
  recorder_->end();
  return summary;
}

/// No rank closes its endpoint before all have received everything. In virtual time no rank closes it.
Task<> RankRun::leave() {
  if (runtime_.is_virtual()) co_return;
  Task<> meeting = comm_.barrier();
  const std::exception_ptr loss = co_await loss_in(std::move(meeting));
  if (!loss) co_return;
  if (!survives()) std::rethrow_exception(loss);
  comm_.abort(loss);
  Task<> saving = save_missing_states();
  co_await loss_in(std::move(saving));  // without rank 0: it has left, since all have saved
}

/// All have trained, and one has been lost since, perhaps before it saved its state. A rank that is not left may also
/// have met all others and gone: its state is there.
Task<> RankRun::save_missing_states() {
  const collective::Communicator alive = co_await comm_.survivors();
  if (rank() != 0 || !saves_at_end()) co_return;
  std::set<int> left;
  for (int i = 0; i < alive.size(); ++i) left.insert(alive.member(i));
  for (int rank = 0; rank < endpoint_->size(); ++rank) {
    if (!left.contains(rank)) states_.save_missing(rank, {plan_.epochs, 0});
  }
}

}  // namespace

Task<> run_rank(RankTask task, const model::Zoo* zoo, std::shared_ptr<transport::CountedEndpoint> endpoint,
                RankEnd* end) {
  RankRun run(std::move(task), *zoo, std::move(endpoint));
  co_await run.settle();
  co_await run.prepare();
  co_await run.train();
  end->summary = run.finish();
  end->comm = run.comm();
  co_await run.leave();
}

}  // namespace ripieno::program
