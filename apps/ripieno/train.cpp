#include "apps/ripieno/train.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "apps/ripieno/job.h"
#include "apps/ripieno/worker.h"
#include "ripieno/core/file.h"
#include "ripieno/launch/local.h"
#include "ripieno/report/merge.h"

namespace ripieno {
namespace {

/// This program's own file: workers are further processes of it.
std::string own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail(ErrorKind::io, "/proc/self/exe: ", error.message());
  return path.string();
}

std::vector<Summary> run_processes(const Settings& settings, const RunFolder& folder, const std::string& resume,
                                   ProgressBar& progress) {
  std::vector<Summary> ranks;
  LocalJob job;
  job.workers = ranks_of(settings);
  job.command = {own_program(), "worker", folder.path().string()};
  if (!resume.empty()) job.command.insert(job.command.end(), {"--resume", resume});
  job.listen = settings.get<std::string>("transport.listen");
  job.on_message = [&](int rank, const nlohmann::json& message) {
    if (message.value("type", "") == "summary") {
      ranks.push_back(from_json(message.at("summary").get<std::string>(), folder.summary()));
    } else {
      progress.message(rank, message);
    }
  };
  run_local(job);
  return ranks;
}

/// A rank that dies ends quietly, with the first of its operations that fails.
Task<> until_death(SimulatedNetwork* network, int rank, Task<> work, ProgressBar* progress) {
  try {
    co_await std::move(work);
  } catch (const Error& error) {
    if (!network->dead(rank) || error.kind() != ErrorKind::peer) throw;
    progress->message(rank, {{"type", "died"}});
  }
}

std::vector<Summary> run_virtually(const Settings& settings, const RunFolder& folder, const std::string& resume,
                                   const Zoo& zoo, ProgressBar& progress) {
  const int size = ranks_of(settings);
  const auto runtime = virtual_runtime(settings.get<std::uint64_t>("seed"));
  SimulatedNetwork network(*runtime, size, simulated_of(settings));
  std::vector<Summary> ranks(static_cast<std::size_t>(size));
  const std::vector<double> deaths = deaths_of(settings);
  for (int rank = 0; rank < size; ++rank) {
    RankTask task{settings, folder, {}, [&progress, rank](const nlohmann::json& message) { progress.message(rank, message); }};
    if (!resume.empty()) task.resume = resume;
    auto endpoint = std::make_shared<CountedEndpoint>(network.endpoint(rank));
    Task<> work = until_death(&network, rank, run_rank(std::move(task), &zoo, endpoint, &ranks[rank]), &progress);
    runtime->spawn(text("rank ", rank), std::move(work));
    if (deaths[rank] > 0) runtime->call_at(from_seconds(deaths[rank]), [&network, rank] { network.kill(rank); });
  }
  runtime->run();
  std::erase_if(ranks, [](const Summary& summary) { return summary.ranks.empty(); });  // of ranks that died
  return ranks;
}

}  // namespace

void find_data(Settings& settings) {
  const auto variable = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
  if (settings.get<std::string>("data.folder").empty() && !variable("RIPIENO_DATA").empty()) {
    settings.assign("data.folder", variable("RIPIENO_DATA"), {"RIPIENO_DATA"});
  }
  if (!settings.get<std::string>("data.cache").empty()) return;
  if (!variable("XDG_CACHE_HOME").empty()) {
    settings.assign("data.cache", variable("XDG_CACHE_HOME") + "/ripieno", {"XDG_CACHE_HOME"});
  } else if (!variable("HOME").empty()) {
    settings.assign("data.cache", variable("HOME") + "/.cache/ripieno", {"HOME"});
  }
}

TrainResult train(const Settings& settings, const std::string& resume, const Zoo& zoo, ProgressBar& progress) {
  const RunFolder folder = RunFolder::create(settings);
  if (!resume.empty()) write_file(folder.path() / "resumed_from", resume + "\n");
  const bool simulated = settings.get<std::string>("transport.kind") == "simulated";
  std::vector<Summary> ranks = simulated ? run_virtually(settings, folder, resume, zoo, progress)
                                         : run_processes(settings, folder, resume, progress);
  progress.clear();
  TrainResult result{folder.path(), merge_ranks(std::move(ranks))};
  write_file(folder.summary(), to_json(result.summary));
  return result;
}

}  // namespace ripieno
