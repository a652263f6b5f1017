#include "apps/ripieno/train.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/ripieno/done_runs.h"
#include "apps/ripieno/job.h"
#include "apps/ripieno/launched.h"
#include "apps/ripieno/rank.h"
#include "apps/ripieno/replay.h"
#include "apps/ripieno/saved_states.h"
#include "ripieno/core/file.h"
#include "ripieno/launch/lab.h"
#include "ripieno/launch/local.h"
#include "ripieno/launch/shell.h"
#include "ripieno/observe/run_lock.h"
#include "ripieno/report/merge.h"

namespace ripieno::program {
namespace {

void note(ProgressBar& progress, const std::string& what) { progress.message(0, {{"type", "note"}, {"text", what}}); }

/// The lab that the settings ask for, if there can be one.
std::unique_ptr<launch::Lab> lab_of(const Settings& settings, launch::LocalJob* job, ProgressBar& progress) {
  const int nodes = settings->lab.nodes;
  if (nodes == 0 || !launch::Lab::impossible().empty()) return nullptr;
  auto lab = std::make_unique<launch::Lab>(settings->lab);
  if (!lab->without_cpu().empty())
    note(progress, "the lab's nodes have no part of the CPU of their own: " + lab->without_cpu());
  if (settings.origin("transport.listen") != "default" &&
      settings.value("transport.listen") != Value(std::string("127.0.0.1:0"))) {
    note(progress, settings.shown("transport.listen") + " has no effect in a lab: its workers meet on its own network");
  }
  job->network = lab->network();
  job->listen = lab->address() + ":0";
  job->place = [lab = lab.get(), nodes, ranks = job->workers](int rank) {
    const launch::LabNode& node = lab->node(static_cast<int>(std::int64_t{rank} * nodes / ranks));
    return launch::WorkerPlace{{node.network, node.groups}, node.address};
  };
  return lab;
}

/// A lab without namespaces: the workers' own endpoints are as slow as its links.
Settings without_namespaces(Settings settings, ProgressBar& progress) {
  if (settings->lab.nodes == 0 || settings->in_virtual_time()) return settings;
  const std::string why = launch::Lab::impossible();
  if (why.empty()) return settings;
  note(progress, "the lab has no network namespaces (" + why +
                     "): rates are kept in user space, packets are not counted, CPU is not shared out");
  if (!settings.is_set("transport.mbit_s")) settings.assign("transport.mbit_s", settings->lab.mbit_s, {"lab.mbit_s"});
  return settings;
}

bool can_be_stopped(const Settings& settings) {
  return !settings->compute.replayed && !strategy_of(settings).traits.own_pace;
}

void tell_interrupt(const Settings& settings, ProgressBar& progress) {
  progress.line(can_be_stopped(settings)
                    ? "interrupted: saves at the end of the step, or where the strategy can; once more ends at once"
                    : "interrupted");
}

std::vector<report::Summary> run_processes(const Settings& settings, const RunFolder& folder, const std::string& resume,
                                           ProgressBar& progress, int* interrupted) {
  std::vector<report::Summary> ranks;
  launch::LocalJob job;
  job.workers = ranks_of(settings);
  job.listen = settings->transport.listen;
  const std::unique_ptr<launch::Lab> lab = lab_of(settings, &job, progress);
  job.command = {launch::own_program(), "worker", folder.path().string()};
  job.forks = true;
  job.saves = can_be_stopped(settings);
  job.on_interrupt = [&](int signal) {
    *interrupted = signal;
    tell_interrupt(settings, progress);
  };
  if (!resume.empty()) job.command.insert(job.command.end(), {"--resume", resume});
  std::set<int> ended, lost;  // ranks; of the lost ones none was needed
  job.on_loss = [&](const launch::Failure& loss) {
    lost.insert(loss.rank);
    progress.loss(loss.error.what());
  };
  job.on_message = [&](int rank, const nlohmann::json& message) {
    if (message.value("type", "") == "summary") {
      ranks.push_back(report::from_json(message.at("summary").get<std::string>(), folder.summary()));
      ended.insert(rank);
    } else {
      progress.message(rank, message);
    }
  };
  launch::run_local(job);
  ended.merge(lost);
  require(ended.size() == static_cast<std::size_t>(job.workers), "only ", ended.size(), " of ", job.workers,
          " ranks have said how they ended");
  return ranks;
}

/// A rank that dies ends quietly, with its first failing operation.
Task<> until_death(transport::Network* network, int rank, Task<> work, ProgressBar* progress) {
  try {
    co_await std::move(work);
  } catch (const Error& error) {
    if (!network->dead(rank) || error.kind() != ErrorKind::peer) throw;
    progress->message(rank, {{"type", "died"}});
  }
}

std::vector<report::Summary> run_virtually(const Settings& settings, const RunFolder& folder, const std::string& resume,
                                           const model::Zoo& zoo, ProgressBar& progress, int* interrupted) {
  const int size = ranks_of(settings);
  const auto runtime = virtual_runtime(settings->seed);
  const transport::Transport& transport = transport::find_transport(settings->transport.kind);
  const std::unique_ptr<transport::Network> network = transport.simulate(*runtime, size, simulated_of(settings));
  std::vector<RankEnd> ends(static_cast<std::size_t>(size));
  const std::vector<double> deaths = deaths_of(settings);
  std::optional<strategy::ComputeProfile> profile;  // all ranks have agreed on settings before they ask for it
  const auto common = [&profile, &zoo, &progress](const Settings& its) {
    if (profile) return *profile;
    const KeptProfile kept = profile_here(its, zoo);
    if (const std::string doubt = doubt_of(kept); !doubt.empty())
      progress.message(0, {{"type", "note"}, {"text", doubt}});
    profile = kept.profile;
    return *profile;
  };
  for (int rank = 0; rank < size; ++rank) {
    const auto show = [&progress, rank, interrupted](const nlohmann::json& message) {
      if (message.value("type", "") == "interrupted") {
        *interrupted = message.at("signal");
      } else {
        progress.message(rank, message);
      }
    };
    RankTask task{settings, folder, {}, show, false, rank, common};
    if (!resume.empty()) task.resume = resume;
    auto endpoint = std::make_shared<transport::CountedEndpoint>(network->endpoint(rank));
    Task<> work = until_death(network.get(), rank, run_rank(std::move(task), &zoo, endpoint, &ends[rank]), &progress);
    runtime->spawn(text("rank ", rank), std::move(work));
    if (deaths[rank] > 0) runtime->call_at(from_seconds(deaths[rank]), [&network, rank] { network->kill(rank); });
  }
  runtime->run();
  std::vector<report::Summary> ranks;
  for (const RankEnd& end : ends) {
    if (end.comm) ranks.push_back(end.summary);  // of ranks that died there is none
  }
  return ranks;
}

}  // namespace

Settings as_before(const Settings& asked, const std::string& resume) {
  const RunFolder from(resume);
  if (resume.empty() || !std::filesystem::exists(from.asked()) || read_file(from.asked()) != asked.to_toml())
    return asked;
  Settings settings;
  settings.load(from.config());
  return settings;
}

std::string first_asked(const Settings& settings, const std::string& resume) {
  const RunFolder from(resume);
  const bool goes_on =
      !resume.empty() && std::filesystem::exists(from.asked()) && read_file(from.config()) == settings.to_toml();
  return goes_on ? read_file(from.asked()) : settings.to_toml();
}

WayOn way_on(const Settings& settings, const RunFolder& folder, const std::string& resume) {
  const auto command = [](const std::string& run) { return "ripieno train --resume " + launch::shell_word(run); };
  if (settings->compute.replayed) return {"a replay learns nothing, so nothing is saved", ""};
  try {
    const SavedStates::Saved saved = SavedStates(folder, ranks_of(settings)).newest_of(0);
    return {"saved " + described(saved.point), command(folder.path().string())};
  } catch (const Error&) {  // there is none
  }
  if (!resume.empty()) return {"nothing more is saved than what it went on from", command(resume)};
  if (strategy_of(settings).traits.own_pace) {
    return {text("nothing is saved: the workers of ", settings->strategy,
                 " are never at the same step, so it can be saved at its end only"),
            ""};
  }
  return {"nothing is saved", ""};
}

void merge_traces(const RunFolder& folder, int ranks) {
  std::string all;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!std::filesystem::exists(folder.trace(rank)))
      continue;  // the rank died before its trace began, or in virtual time
    const std::string events = read_file(folder.trace(rank));
    for (std::size_t begin = 0, end; (end = events.find('\n', begin)) != std::string::npos; begin = end + 1) {
      if (events[begin] != ']')
        all += text(all.empty() ? "[" : ",", std::string_view(events).substr(begin + 1, end - begin));
    }
  }
  write_file(folder.trace(), (all.empty() ? "[" : all) + "]\n");
}

void find_data(Settings& settings) {
  const auto variable = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
  if (settings->data.folder.empty() && !variable("RIPIENO_DATA").empty()) {
    settings.assign("data.folder", variable("RIPIENO_DATA"), {"RIPIENO_DATA"});
  }
  if (!settings->data.cache.empty()) return;
  if (!variable("XDG_CACHE_HOME").empty()) {
    settings.assign("data.cache", variable("XDG_CACHE_HOME") + "/ripieno", {"XDG_CACHE_HOME"});
  } else if (!variable("HOME").empty()) {
    settings.assign("data.cache", variable("HOME") + "/.cache/ripieno", {"HOME"});
  }
}

TrainResult train(const Settings& asked, const std::string& resume, const model::Zoo& zoo, ProgressBar& progress,
                  int* interrupted) {
  check_can_start(ranks_of(asked), asked->transport.kind, asked.shown("transport.kind"), "or leave it at tcp");
  const Settings settings = without_namespaces(as_before(asked, resume), progress);
  int signal = 0;
  if (!interrupted) interrupted = &signal;
  if (!resume.empty()) remove_unfinished(resume);
  const RunFolder folder = create_run(settings);
  const observe::RunLock running(folder.path());
  const bool simulated = settings->in_virtual_time();
  const auto merge = [&] {
    if (settings->run.trace) merge_traces(folder, ranks_of(settings));
  };
  std::vector<report::Summary> ranks;
  try {
    if (const std::string first = first_asked(asked, resume); first != settings.to_toml())
      write_file(folder.asked(), first);
    if (!resume.empty()) note_resumed(folder, resume);
    ranks = simulated ? run_virtually(settings, folder, resume, zoo, progress, interrupted)
                      : run_processes(settings, folder, resume, progress, interrupted);
  } catch (const launch::Interrupted& end) {
    progress.clear();
    merge();
    *interrupted = end.signal();
    const auto [saved, command] = way_on(settings, folder, resume);
    RunFolder::remove_if_nothing_came(folder.path());
    throw launch::Interrupted(end.signal(), saved, command);
  } catch (...) {
    try {
      merge();                         // shows what happened before the error
    } catch (const std::exception&) {  // the error that ended the job is reported instead
    }
    RunFolder::remove_if_nothing_came(folder.path());
    throw;
  }
  progress.clear();
  TrainResult result{folder.path(), report::merge_ranks(std::move(ranks))};
  merge();
  write_file(folder.summary(), report::to_json(result.summary));
  return result;
}

}  // namespace ripieno::program
