#include "apps/ripieno/launched.h"

#include <nlohmann/json.hpp>

#include "apps/ripieno/job.h"
#include "apps/ripieno/rank.h"
#include "apps/ripieno/rank_folder.h"
#include "apps/ripieno/saved_states.h"
#include "apps/ripieno/worker.h"
#include "ripieno/core/file.h"
#include "ripieno/launch/error_file.h"
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

/// A rank's part, after all have met.
class LaunchedRank {
 public:
  LaunchedRank(const launch::Placement& place, const Settings& settings, const std::string& resume,
               const model::Zoo& zoo, const TellLauncher& tell, std::shared_ptr<transport::CountedEndpoint> endpoint)
      : place_(place), settings_(settings), resume_(resume), zoo_(zoo), tell_(tell), endpoint_(endpoint) {}

  Task<> run();
  std::optional<TrainResult> take_result() { return std::move(result_); }

 private:
  Task<> find_folder();
  Task<> gather(collective::Communicator comm, report::Summary own);

  const launch::Placement& place_;
  const Settings& settings_;
  const std::string& resume_;
  const model::Zoo& zoo_;
  const TellLauncher& tell_;
  const std::shared_ptr<transport::CountedEndpoint> endpoint_;
  RankFolder folder_;
  std::optional<observe::RunLock> running_;
  std::optional<TrainResult> result_;
};

/// Rank 0 makes the run's folder.
Task<> LaunchedRank::find_folder() {
  std::optional<RunFolder> made;
  if (place_.rank == 0) {
    made.emplace(create_run(settings_));
    running_.emplace(made->path());
    if (!resume_.empty()) write_file(made->path() / "resumed_from", resume_ + "\n");
  }
  Task<> agreeing = RankFolder::agree(collective::Communicator(endpoint_), made, &folder_);
  co_await std::move(agreeing);
}

Task<> LaunchedRank::run() {
  Task<> finding = find_folder();
  co_await std::move(finding);
  RankTask task{settings_, folder_.run(), {}, tell_, place_.local_rank};
  if (!resume_.empty()) task.resume = resume_;
  RankEnd own;
  Task<> training = run_rank(std::move(task), &zoo_, endpoint_, &own);
  co_await std::move(training);
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

void fit_to_world(const launch::Placement& place, Settings* settings) {
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
    const std::string said = error.what();
    Error whose = said.starts_with("rank ") ? error : Error(error.kind(), text("rank ", rank, ": ", said));
    launch::write_error_file(whose);
    return whose;
  };
  try {
    part();
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
  cluster.runtime->run();
  std::optional<TrainResult> result = rank.take_result();
  if (result) write_file(open_run(result->folder).summary(), report::to_json(result->summary));
  return result;
}

}  // namespace ripieno::program
