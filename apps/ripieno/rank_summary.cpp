#include "apps/ripieno/rank_summary.h"

#include <cmath>

#include "apps/ripieno/job.h"
#include "ripieno/numeric/elementwise.h"
#include "ripieno/observe/usage.h"
#include "ripieno/train/torch_learner.h"

namespace ripieno {

namespace {

/// What all ranks of the run have in common.
Summary summary_of_run(const Settings& settings, const Plan& plan, int rank, const TorchLearner& learner,
                       const Recorder& recorder) {
  const StrategyInfo& info = strategy_of(settings);
  Summary run;
  run.name = settings->run.name.empty() ? std::string(info.name) : settings->run.name;
  run.kind = kind_of(settings);
  run.strategy = std::string(info.name);
  run.route = info.route_of(plan);
  run.codec = plan.exchange.codec.name;
  run.model = settings->model;
  run.dataset = settings->data_name;
  run.world_size = ranks_of(settings);
  run.parameters = learner.layout().parameters;
  run.epochs = static_cast<int>(plan.epochs - plan.first_epoch);
  run.steps = recorder.steps();
  run.seed = static_cast<std::int64_t>(settings->seed);
  if (plan.max_steps == 0) {
    const Workload work =
        workload_of(settings, learner.sampler().steps_of_all(), static_cast<std::uint32_t>(run.epochs));
    const auto sent = info.bytes_sent(info, plan, learner.layout(), work, rank);
    if (sent) run.closed_form_payload_sent = *sent / static_cast<std::uint64_t>(run.epochs);
  }
  const auto& epochs = recorder.epochs();
  if (!epochs.empty() && !std::isnan(epochs.back().accuracy))
    run.test = TestResult{epochs.back().accuracy, epochs.back().loss};
  return run;
}

void put_bytes(const Ledger& ledger, RankSummary* own) {
  const Traffic all = ledger.total();
  own->bytes = {all.payload_sent, all.payload_received, all.framing_sent, all.framing_received};
  own->exchange_payload_sent = ledger.total(Purpose::exchange).payload_sent;
  if (ledger.dropped().payload_sent > 0) own->dropped_payload_sent = ledger.dropped().payload_sent;
  own->evaluation_payload_sent = ledger.total(Purpose::evaluate).payload_sent;
}

void put_times(const Recorder& recorder, bool learns, RankSummary* own) {
  if (learns) {
    for (const Duration epoch : recorder.epoch_times()) own->seconds.epoch.push_back(seconds(epoch));
  }
  for (const StageInfo& one : stages) own->seconds.stages[one.stage] = seconds(recorder.totals()[one.stage]);
  double trained = 0;
  for (const double epoch : own->seconds.epoch) trained += epoch;
  if (trained > 0) own->images_per_second = static_cast<double>(recorder.samples()) / trained;
}

}  // namespace

Summary summarise(const Settings& settings, const Plan& plan, int rank, const TorchLearner& learner,
                  const Recorder& recorder, const Ledger& ledger, NumberSpan weights, double total_seconds) {
  Summary run = summary_of_run(settings, plan, rank, learner, recorder);
  RankSummary own;
  own.rank = rank;
  own.test = run.test;
  own.seconds.total = total_seconds;
  put_times(recorder, strategy_of(settings).worker(plan, rank) >= 0, &own);
  put_bytes(ledger, &own);
  const auto& epochs = recorder.epochs();
  if (!epochs.empty() && !std::isnan(epochs.back().own_accuracy)) own.own_accuracy = epochs.back().own_accuracy;
  own.bytes_read = learner.bytes_read();
  if (!settings->in_virtual_time()) {
    const CpuSeconds cpu = cpu_seconds();
    own.process = ProcessUse{cpu.user, cpu.system, proportional_memory(), peak_resident_memory()};
  }
  own.parameters_hash = hash(weights);
  if (!recorder.ages().empty()) own.staleness = recorder.ages();
  run.seconds = own.seconds;
  run.bytes = own.bytes;
  run.exchange_payload_sent = own.exchange_payload_sent;
  run.evaluation_payload_sent = own.evaluation_payload_sent;
  run.images_per_second = own.images_per_second;
  run.ranks = {own};
  return run;
}

}  // namespace ripieno
