#include "apps/ripieno/rank.h"

#include <asio/ip/host_name.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "apps/ripieno/choose_exchange.h"
#include "apps/ripieno/job.h"
#include "apps/ripieno/rank_summary.h"
#include "apps/ripieno/replay.h"
#include "apps/ripieno/saved_states.h"
#include "ripieno/core/async.h"
#include "ripieno/core/file.h"
#include "ripieno/core/hash.h"
#include "ripieno/membership/clocks.h"
#include "ripieno/numeric/elementwise.h"
#include "ripieno/observe/usage.h"
#include "ripieno/observe/usage_sampler.h"
#include "ripieno/train/checkpoint.h"
#include "ripieno/train/torch_learner.h"

namespace ripieno::program {
namespace {

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
        states_(task_.folder, endpoint_->size()) {}

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
  std::int64_t layout_digest() const;
  void check_saved();
  Task<> go_on_from_saved();
  void check_steps();
  void go_on_with(const collective::Communicator& alive);
  void checkpoint(std::uint32_t epoch);
  void save_state();
  void save_state_of(int lost, SavedStates& states);
  Task<> save_missing_states();
  void visit_state(StateVisitor& visitor);
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
  SavedStates states_;
  std::map<int, SavedStates> states_of_lost_;  // on rank 0
  strategy::Plan plan_;
  std::optional<observe::Recorder> recorder_;
  std::unique_ptr<train::TorchLearner> learner_;
  std::optional<train::StateReader> saved_;
  std::int64_t epochs_done_ = 0;
  std::optional<MessageTrace> messages_;
  std::unique_ptr<strategy::Strategy> strategy_;
  std::optional<RankProgress> progress_;
  std::optional<double> machine_busy_;
};

/// Measures the links and chooses what the recipe leaves to them, before anything depends on it; then the ranks check
/// that they agree. On everything else they have agreed when they met.
Task<> RankRun::settle() {
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
  check_steps();
  if (task_.resume) open_saved();
  if (task_.settings->run.trace) co_await begin_trace();
  strategy::Workplace place{comm_, *learner_, *recorder_, [this](std::uint32_t epoch) { checkpoint(epoch); }, {}};
  if (survives()) place.goes_on_with = [this](const collective::Communicator& alive) { go_on_with(alive); };
  strategy_ = strategy::make_strategy(info, plan_, std::move(place));
  if (saved_) co_await go_on_from_saved();
  const TrainedRank who{rank(), task_.settings->workers, learner_->steps_per_epoch(), keeps_weights()};
  progress_.emplace(*recorder_, runtime_, plan_, who, task_.report);
}

/// Where a rate would have no steps left, or workers would never exchange, it is said before the work is done.
void RankRun::check_steps() {
  const std::uint64_t wanted = task_.settings->run.left_out_steps, apart = plan_.local.steps;
  std::uint64_t steps = std::uint64_t{learner_->steps_per_epoch()} * (plan_.epochs - plan_.first_epoch);
  if (plan_.max_steps > 0) steps = std::min<std::uint64_t>(steps, plan_.max_steps);
  if (wanted > 0 && wanted >= steps) {
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
    if (rank() == 0)
      states_of_lost_.try_emplace(member, task_.folder, endpoint_->size()).first->second.take_over(member);
  }
  comm_ = alive;
  if (rank() == 0) note(text(lost, " lost: ", alive.size(), " of ", endpoint_->size(), " ranks go on"));
}

Task<std::optional<strategy::ComputeProfile>> RankRun::replayed() {
  if (!task_.settings->compute.replayed) co_return std::nullopt;
  if (task_.profile) co_return task_.profile(task_.settings);
  co_return co_await common_profile(task_.settings, &zoo_, comm_);
}

void RankRun::open_saved() {
  const auto file = SavedStates(open_run(*task_.resume), endpoint_->size()).newest_of(rank());
  saved_.emplace(train::load_tensors(file), file);
  saved_->number("epochs_done", epochs_done_);
  if (epochs_done_ >= plan_.epochs) {
    fail(ErrorKind::usage, file.string(), ": has ", epochs_done_, " epochs done, and train.epochs is ", plan_.epochs,
         "; raise it with --set train.epochs=N");
  }
  plan_.first_epoch = static_cast<std::uint32_t>(epochs_done_);
}

/// A digest of the model's tensors as they lie in memory: saved numbers mean nothing in another order.
std::int64_t RankRun::layout_digest() const {
  std::ostringstream all;
  for (const auto& [name, tensor] : train::state_dict(learner_->model()))
    all << name << ' ' << tensor.sizes() << ' ' << tensor.strides() << '\n';
  return static_cast<std::int64_t>(hash(all.str()));
}

/// The saved numbers must mean the same in this run, and hold what all workers have learnt.
void RankRun::check_saved() {
  std::int64_t ranks = 0, alike = 0, layout = 0;
  saved_->number("ranks", ranks);
  saved_->number("alike", alike);
  saved_->number("layout", layout);
  const std::string from = task_.resume->string();
  if (layout != layout_digest()) {
    fail(ErrorKind::usage, from, ": its model is another, or its numbers lie in another order in memory, than that of ",
         task_.settings.shown("model"), " with ", task_.settings.shown("train.channels_last"),
         ": go on with the model and the train.channels_last of that run");
  }
  const bool fewer = endpoint_->size() < ranks;
  if (!alike && (fewer || strategy_of(task_.settings).exact)) {
    fail(ErrorKind::usage, from, ": its ", ranks, " ranks hold weights of their own, of which ",
         fewer ? text("only ", endpoint_->size(), " would be used")
               : text(task_.settings.shown("strategy"), " takes rank 0's"),
         ": go on with as many ranks, and with a strategy whose workers' weights differ, too");
  }
}

/// Loads the saved state. A job that still runs may have saved in between, so all ranks' states must be of the same
/// epoch.
Task<> RankRun::go_on_from_saved() {
  check_saved();
  visit_state(*saved_);
  const std::int64_t first = co_await comm_.broadcast(epochs_done_);
  if (first == epochs_done_) co_return;
  fail(ErrorKind::mismatch, task_.resume->string(), ": the state of rank ", rank(), " has ", epochs_done_,
       " epochs done, rank 0's ", first);
}

Task<> RankRun::begin_trace() {
  membership::ClockOffset clock;  // in virtual time all ranks share one clock
  if (!runtime_.is_virtual())
    clock = co_await membership::clock_offset(endpoint_, comm_.channel(comm_.take_channels(), observe::Purpose::setup));
  recorder_->trace_to(std::make_unique<LineFile>(task_.folder.trace(rank())),
                      {rank(), endpoint_->size(), clock.ahead, clock.error});
  messages_.emplace(*endpoint_, *recorder_);
}

/// The content of a rank's checkpoint, in one walk for writing and reading; epochs_done comes first, as saved_states.h
/// requires.
void RankRun::visit_state(StateVisitor& visitor) {
  visitor.number("epochs_done", epochs_done_);
  std::int64_t ranks = endpoint_->size(), alike = strategy_of(task_.settings).exact ? 1 : 0, layout = layout_digest();
  visitor.number("ranks", ranks);
  visitor.number("alike", alike);
  visitor.number("layout", layout);
  visitor.span("parameters", learner_->parameters());
  visitor.span("buffers", learner_->buffers());
  learner_->visit(visitor);
  strategy_->visit(visitor);
}

void RankRun::save_state() {
  train::StateWriter writer;
  visit_state(writer);
  states_.save(rank(), epochs_done_, writer.sealed());
  for (auto& [lost, states] : states_of_lost_) save_state_of(lost, states);
}

void RankRun::save_state_of(int lost, SavedStates& states) {
  train::StateWriter writer = train::StateWriter::without_residuals();
  visit_state(writer);
  states.save(lost, epochs_done_, writer.sealed());
}

void RankRun::checkpoint(std::uint32_t epoch) {
  const int every = keeps_weights() ? task_.settings->run.checkpoint_every : 0;
  const std::int64_t before = std::exchange(epochs_done_, epoch + 1);
  const bool at_end = epochs_done_ == plan_.epochs && plan_.max_steps == 0;  // the end is saved separately
  if (every > 0 && epochs_done_ / every > before / every && !at_end) save_state();
}

Task<> RankRun::train() {
  recorder_->start({rank(), endpoint_->size(), asio::ip::host_name(), observe::network_namespace(), plan_.first_epoch,
                    plan_.epochs, learner_->steps_per_epoch(),
                    runtime_.is_virtual() ? std::optional<double>() : unix_time()});
  std::optional<observe::UsageSampler> sampler;
  const Duration between = task_.settings->run.sample_every;
  if (between.count() > 0 && !runtime_.is_virtual()) sampler.emplace(runtime_, *recorder_, between);
  if (survives()) task_.report({{"type", "survives"}});
  try {
    co_await strategy_->run();
  } catch (const std::exception& error) {
    recorder_->failed(error.what());
    throw;
  }
  if (sampler) machine_busy_ = sampler->machine_busy();
}

/// Saves the trained model.
report::Summary RankRun::finish() {
  if (saves_at_end()) {
    epochs_done_ = plan_.epochs;
    save_state();  // before the consensus is taken: if workers' parameters differ, each resumes from its own
  }
  numeric::convert(learner_->parameters(), strategy_->consensus());
  if (strategy_->consensus_buffers().count > 0) numeric::convert(learner_->buffers(), strategy_->consensus_buffers());
  if (keeps_weights() && rank() == 0) train::save_tensors(task_.folder.model(), train::state_dict(learner_->model()));
  report::Summary summary = summarise(task_.settings, plan_, rank(), *learner_, *recorder_, endpoint_->ledger(),
                                      learner_->parameters(), seconds(runtime_.now() - start_));
  summary.ranks[0].machine_busy = machine_busy_;
  summary.not_finite = progress_->not_finite();
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
    SavedStates states(task_.folder, endpoint_->size());
    if (!left.contains(rank) && states.take_over(rank) != epochs_done_) save_state_of(rank, states);
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
