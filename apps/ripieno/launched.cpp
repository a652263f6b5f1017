#include "apps/ripieno/launched.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/ripieno/done_runs.h"
#include "apps/ripieno/job.h"
#include "apps/ripieno/rank.h"
#include "apps/ripieno/rank_folder.h"
#include "apps/ripieno/saved_states.h"
#include "apps/ripieno/worker.h"
#include "ripieno/core/async.h"
#include "ripieno/core/file.h"
#include "ripieno/launch/error_file.h"
#include "ripieno/launch/failure.h"
#include "ripieno/launch/local.h"
#include "ripieno/observe/run_lock.h"
#include "ripieno/report/merge.h"
#include "ripieno/train/torch_error.h"

namespace ripieno::program {
namespace {

bool is_left(const collective::Communicator& comm, int rank) {
  for (int i = 0; i < comm.size(); ++i) {
    if (comm.member(i) == rank) return true;
  }
  return false;
}

bool was_interrupted(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const launch::Interrupted&) {
    return true;
  } catch (...) {
  }
  return false;
}

/// A rank's part, after all have met.
class LaunchedRank {
 public:
  LaunchedRank(const launch::Placement& place, const Settings& settings, const std::string& resume,
               const model::Zoo& zoo, const TellLauncher& tell, std::shared_ptr<transport::CountedEndpoint> endpoint)
      : place_(place), settings_(settings), resume_(resume), zoo_(zoo), tell_(tell), endpoint_(endpoint) {}

  Task<> run();
  std::optional<TrainResult> take_result() { return std::move(result_); }
  /// On rank 0: after a signal has ended the run.
  WayOn way_on() const { return made_ ? program::way_on(settings_, RunFolder(*made_), resume_) : WayOn(); }

 private:
  Task<> work();
  Task<> find_resumed();
  bool can_resume() const;
  void take_settings();
  Task<> find_folder();
  Task<> gather(collective::Communicator comm, report::Summary own);

  const launch::Placement& place_;
  Settings settings_;
  std::string resume_;
  bool goes_on_ = false;  // by run.resume
  const model::Zoo& zoo_;
  const TellLauncher& tell_;
  const std::shared_ptr<transport::CountedEndpoint> endpoint_;
  std::optional<std::filesystem::path> made_;  // by this rank
  RankFolder folder_;
  std::optional<observe::RunLock> running_;
  std::optional<TrainResult> result_;
};

/// By run.resume: rank 0 looks for the run. All hosts must see it.
Task<> LaunchedRank::find_resumed() {
  if (!resume_.empty()) co_return;
  const collective::Communicator comm(endpoint_);
  const std::string found = place_.rank == 0 ? run_to_go_on_from(settings_) : "";
  resume_ = co_await comm.broadcast(found);
  if (resume_.empty()) co_return;
  const std::uint8_t sees = can_resume() ? 1 : 0;
  const std::vector<std::uint8_t> all = co_await comm.all_gather(sees);
  const auto blind = std::find(all.begin(), all.end(), 0);
  if (blind == all.end()) {
    goes_on_ = true;
    co_return;
  }
  if (place_.rank == 0)
    std::cerr << text("ripieno: note: begins anew: rank ", blind - all.begin(), " does not see ", resume_,
                      ", from which run.resume would have it go on; let all hosts share run.folder\n")
              << std::flush;
  resume_.clear();
}

bool LaunchedRank::can_resume() const {
  try {
    SavedStates(open_run(resume_), endpoint_->size()).newest_of(place_.rank);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// What was measured and chosen for the run that this one goes on from holds for all ranks.
void LaunchedRank::take_settings() {
  const Settings own = settings_;
  settings_.load(folder_.run().config());
  for (const char* of_a_host : settings_of_a_host) settings_.assign(of_a_host, own.value(of_a_host), {"run.resume"});
}

/// Rank 0 makes the run's folder.
Task<> LaunchedRank::find_folder() {
  std::optional<RunFolder> made;
  if (place_.rank == 0) {
    made.emplace(create_run(goes_on_ ? as_before(settings_, resume_) : settings_));
    made_ = made->path();
    running_.emplace(made->path());
    if (const std::string first = first_asked(settings_, resume_); first != read_file(made->config()))
      write_file(made->asked(), first);
    if (!resume_.empty()) note_resumed(*made, resume_);
  }
  Task<> agreeing = RankFolder::agree(collective::Communicator(endpoint_), made, &folder_);
  co_await std::move(agreeing);
}

Task<> LaunchedRank::run() {
  Task<> working = work();
  const std::exception_ptr error = co_await error_of(std::move(working));
  if (!error) co_return;
  if (made_) RunFolder::remove_if_nothing_came(*made_);
  std::rethrow_exception(error);
}

Task<> LaunchedRank::work() {
  Task<> looking = find_resumed();
  co_await std::move(looking);
  Task<> finding = find_folder();
  co_await std::move(finding);
  if (goes_on_) take_settings();
  RankTask task{settings_, folder_.run(), {}, tell_, place_.control_fd >= 0, place_.local_rank};
  if (!resume_.empty()) task.resume = resume_;
  RankEnd own;
  Task<> training = run_rank(std::move(task), &zoo_, endpoint_, &own);
  const std::exception_ptr error = co_await error_of(std::move(training));
  if (was_interrupted(error)) {
    Task<> gathering = folder_.gather(collective::Communicator(endpoint_).aside(UINT64_MAX));
    co_await error_of(std::move(gathering));  // of a rank that is lost
  }
  if (error) std::rethrow_exception(error);
  Task<> gathering = gather(own.comm.value(), own.summary);
  co_await std::move(gathering);
}

/// All ranks' summaries and files come to rank 0. Who is lost now ends the job: rank 0 may miss its part.
Task<> LaunchedRank::gather(collective::Communicator comm, report::Summary own) {
  Task<std::vector<std::string>> gathering = comm.all_gather(report::to_json(own));
  const std::vector<std::string> all = co_await std::move(gathering);
  for (int rank = 0; rank < endpoint_->size(); ++rank) {
    if (rank == place_.rank || (place_.rank == 0 && !is_left(comm, rank)))
      SavedStates(folder_.run(), endpoint_->size()).keep_newest(rank);
  }
  Task<> gathering_files = folder_.gather(comm);
  co_await std::move(gathering_files);
  if (place_.rank != 0) co_return;
  if (settings_->run.trace) merge_traces(folder_.run(), endpoint_->size());
  std::vector<report::Summary> ranks;
  for (const std::string& one : all) ranks.push_back(report::from_json(one, folder_.run().summary()));
  result_.emplace(TrainResult{folder_.run().path(), report::merge_ranks(std::move(ranks))});
}

}  // namespace

namespace {

/// One process, too, is a number, as in the first row of a scaling table. It may also be a shell's (`srun --pty bash`),
/// in which a user starts jobs: -n is for this.
void fit_to_one(const launch::Placement& place, Settings* settings) {
  const bool is_asked = settings->origin("workers") == "--set" && place.control_fd < 0;
  const bool starts_its_own = (*settings)->in_virtual_time() || (*settings)->lab.nodes > 0 || is_asked;
  if (!place.counts || starts_its_own || ranks_of(*settings) == 1) return;
  const std::string started = text(place.launcher, " has started 1 process (", place.read, ")");
  Settings alone = *settings;
  alone.assign("workers", std::int64_t{1}, {place.launcher});
  if (ranks_of(alone) != 1 || settings->origin("workers") == "--set") {
    fail(ErrorKind::usage, started, ", but the recipe needs ", ranks_of(*settings), " (", settings->shown("workers"),
         "): start as many", place.control_fd < 0 ? ", or say -n N, with which this one starts N workers itself" : "");
  }
  std::cerr << text("ripieno: note: ", started, ", so this trains 1 worker in place of ", settings->shown("workers"),
                    "; -n ", (*settings)->workers, " would start ", (*settings)->workers, " from this one\n")
            << std::flush;
  *settings = alone;
}

}  // namespace

void fit_to_world(const launch::Placement& place, Settings* settings) {
  if (place.world_size == 1) return fit_to_one(place, settings);
  const std::string started = text(place.launcher, " has started ", place.world_size, " processes (", place.read, ")");
  if ((*settings)->in_virtual_time()) {
    fail(ErrorKind::usage, started, ", but ", settings->shown("transport.kind"),
         " runs all ranks in one: start one, without that launcher");
  }
  if ((*settings)->lab.nodes > 0) {
    fail(ErrorKind::usage, started, ", but ", settings->shown("lab.nodes"),
         " starts processes of its own: start one, without that launcher");
  }
  const bool is_asked = settings->origin("workers") == "--set";
  for (int workers = place.world_size; workers >= 1 && !is_asked; --workers) {
    Settings tried = *settings;
    tried.assign("workers", std::int64_t{workers}, {place.launcher});
    if (ranks_of(tried) == place.world_size) *settings = tried;
  }
  if (const int ranks = ranks_of(*settings); ranks != place.world_size) {
    fail(ErrorKind::usage, started, ", but the recipe needs ", ranks, " (", settings->shown("workers"),
         "): start as many, or leave -n and --set workers out");
  }
}

void check_can_start(int ranks, std::string_view transport, const std::string& setting, std::string_view instead) {
  if (ranks == 1 || !transport::find_transport(transport).has_launcher) return;
  fail(ErrorKind::usage, setting, " takes processes that its own launcher has started: start ", ranks,
       " of this command with mpirun or srun (docs/clusters.md), ", instead);
}

void as_rank(int rank, launch::Control& control, const std::function<void()>& part) {
  if (control.has_listener()) return run_part(control, part);
  const auto told = [rank](const Error& error) {
    Error whose = launch::named(error, rank);
    launch::write_error_file(whose);
    return whose;
  };
  try {
    part();
  } catch (const launch::Interrupted& interrupted) {
    if (rank == 0) throw;
    throw Reported{static_cast<ErrorKind>(128 + interrupted.signal())};
  } catch (const Error& error) {
    throw told(error);
  } catch (const std::exception& error) {
    throw told(Error(ErrorKind::internal, train::first_line(error)));
  }
}

std::optional<TrainResult> train_launched(const launch::Placement& place, const Settings& settings,
                                          const std::string& resume, const model::Zoo& zoo, const TellLauncher& tell) {
  const transport::Cluster cluster = launch::join(place, join_options(settings));
  LaunchedRank rank(place, settings, resume, zoo, tell, cluster.endpoint);
  cluster.runtime->spawn(text("rank ", place.rank), rank.run());
  try {
    cluster.runtime->run();
  } catch (const launch::Interrupted& interrupted) {
    const auto [saved, command] = rank.way_on();
    if (!saved.empty())
      tell({{"type", "stopped"}, {"signal", interrupted.signal()}, {"saved", saved}, {"command", command}});
    throw launch::Interrupted(interrupted.signal(), saved, command);
  }
  std::optional<TrainResult> result = rank.take_result();
  if (result) write_file(open_run(result->folder).summary(), report::to_json(result->summary));
  return result;
}

}  // namespace ripieno::program
