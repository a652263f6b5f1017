// Reads a run without a summary from its ranks' metrics.
#include <algorithm>

#include "ripieno/core/error.h"
#include "ripieno/report/merge.h"
#include "ripieno/report/run.h"

namespace ripieno::report {
namespace {

RankSummary rank_of(const Metrics& metrics, int number) {
  RankSummary rank;
  rank.rank = number;
  for (const EpochLine& epoch : metrics.epochs) {
    rank.seconds.epoch.push_back(epoch.seconds);
    rank.exchange_payload_sent += epoch.bytes ? epoch.bytes->payload_sent : 0;
    if (epoch.test) rank.test = epoch.test;
    rank.seconds.total = std::max(rank.seconds.total, epoch.time);
  }
  double samples = 0;
  for (const StepLine& step : metrics.steps) {
    rank.seconds.stages += step.seconds;
    rank.exchange_payload_sent += step.bytes ? step.bytes->payload_sent : 0;
    samples += step.samples;
  }
  if (metrics.steps.empty()) return rank;
  rank.seconds.total = std::max(rank.seconds.total, metrics.steps.back().time);
  const double began = metrics.steps.front().time - metrics.steps.front().seconds.steps(),
               took = metrics.steps.back().time - began;
  const StageSeconds& stages = rank.seconds.stages;
  const bool trains =
      stages[observe::Stage::forward] > 0 || stages[observe::Stage::other] > 0;  // a server's repeat others'
  if (trains && took > 0) rank.images_per_second = samples / took;
  return rank;
}

/// How many epochs its workers' steps are, the mean; where it is not known how many steps an epoch has, those that
/// have ended.
double epochs_of(const Run& run) {
  double all = 0;
  const std::vector<int> workers = run.workers();
  for (const int worker : workers) {
    const Metrics& one = run.ranks[static_cast<std::size_t>(worker)];
    if (!one.start || one.start->steps_per_epoch == 0) return static_cast<double>(run.summary.seconds.epoch.size());
    all += static_cast<double>(one.steps.size()) / static_cast<double>(one.start->steps_per_epoch);
  }
  return workers.empty() ? 0 : all / static_cast<double>(workers.size());
}

}  // namespace

Run read_unfinished(const std::filesystem::path& folder, Summary known) {
  Run run;
  run.folder = folder;
  known.unfinished = true;
  std::vector<Summary> ranks;
  for (int rank = 0; rank < known.world_size; ++rank) {
    const auto file = folder / text("metrics-", rank, ".jsonl");
    Metrics metrics;
    metrics.file = file;
    if (std::filesystem::exists(file)) metrics = read_metrics(file);
    Summary one = known;
    one.ranks = {rank_of(metrics, rank)};
    one.test = one.ranks[0].test;
    one.exchange_payload_sent = one.ranks[0].exchange_payload_sent;
    one.steps = metrics.steps.size();
    ranks.push_back(std::move(one));
    run.ranks.push_back(std::move(metrics));
  }
  run.summary = merge_ranks(std::move(ranks));
  if (run.summary.steps == 0)
    fail(ErrorKind::data, folder.string(),
         ": the run ended before its first step, or has not come to it: there is nothing to show");
  run.summary.epochs = epochs_of(run);
  return run;
}

}  // namespace ripieno::report
