#include "apps/ripieno/rank_summary.h"

#include <algorithm>
#include <asio/ip/host_name.hpp>
#include <cmath>

#include "apps/ripieno/job.h"
#include "apps/ripieno/program_runs.h"
#include "ripieno/numeric/elementwise.h"
#include "ripieno/observe/usage.h"
#include "ripieno/train/torch_learner.h"

namespace ripieno::program {

namespace {

/// 1.6 where max_steps ends training within the second epoch.
double epochs_done(const strategy::Plan& plan, std::uint32_t steps_per_epoch) {
  double end = plan.epochs;
  if (plan.max_steps > 0 && steps_per_epoch > 0)
    end = std::min(end, static_cast<double>(plan.max_steps) / steps_per_epoch);
  return std::max(0.0, end);
}

/// The fields that are the same for all ranks of the run.
report::Summary summary_of_run(const Settings& settings, const strategy::Plan& plan, int rank,
                               const train::TorchLearner& learner, const observe::Recorder& recorder) {
  const strategy::StrategyInfo& info = strategy_of(settings);
  report::Summary run;
  run.name = settings->run.name.empty() ? std::string(info.name) : settings->run.name;
  run.kind = kind_of(settings);
  run.strategy = std::string(info.name);
  run.route = info.route_of(plan);
  run.codec = plan.exchange.codec.name;
  run.model = settings->model;
  run.dataset = settings->data_name;
  run.launcher = launcher();
  run.world_size = ranks_of(settings);
  run.parameters = learner.layout().parameters;
  run.epochs = epochs_done(plan, learner.steps_per_epoch());
  run.steps = recorder.steps();
  run.steps_left_out = settings->run.left_out_steps;
  run.seed = static_cast<std::int64_t>(settings->seed);
  if (plan.max_steps == 0) {
    strategy::Plan whole = plan;
    whole.first_epoch = whole.first_step = 0;
    const strategy::Workload work = workload_of(settings, learner.sampler().steps_of_all(), plan.epochs);
    const auto sent = info.bytes_sent(info, whole, learner.layout(), work, rank);
    if (sent) run.closed_form_payload_sent = *sent / work.epochs;
  }
  const auto& epochs = recorder.epochs();
  if (!epochs.empty() && !std::isnan(epochs.back().accuracy))
    run.test = report::TestResult{epochs.back().accuracy, epochs.back().loss};
  return run;
}

void put_bytes(const observe::Ledger& ledger, report::RankSummary* own) {
  const observe::Traffic all = ledger.total();
  own->bytes = {all.payload_sent, all.payload_received, all.framing_sent, all.framing_received};
  own->exchange_payload_sent = ledger.total(observe::Purpose::exchange).payload_sent;
  if (ledger.dropped().payload_sent > 0) own->dropped_payload_sent = ledger.dropped().payload_sent;
  own->evaluation_payload_sent = ledger.total(observe::Purpose::evaluate).payload_sent;
}

void put_times(const observe::Recorder& recorder, bool learns, report::RankSummary* own) {
  if (learns) {
    for (const Duration epoch : recorder.epoch_times()) own->seconds.epoch.push_back(seconds(epoch));
  }
  for (const observe::StageInfo& one : observe::stages)
    own->seconds.stages[one.stage] = seconds(recorder.totals()[one.stage]);
  if (learns) own->images_per_second = recorder.rate();
}

}  // namespace

report::Summary summarise(const Settings& settings, const strategy::Plan& plan, int rank,
                          const train::TorchLearner& learner, const observe::Recorder& recorder,
                          const observe::Ledger& ledger, NumberSpan weights, double total_seconds) {
  report::Summary run = summary_of_run(settings, plan, rank, learner, recorder);
  report::RankSummary own;
  own.rank = rank;
  own.host = asio::ip::host_name();
  own.test = run.test;
  own.seconds.total = total_seconds;
  put_times(recorder, strategy_of(settings).worker(plan, rank) >= 0, &own);
  put_bytes(ledger, &own);
  const auto& epochs = recorder.epochs();
  if (!epochs.empty() && !std::isnan(epochs.back().own_accuracy)) own.own_accuracy = epochs.back().own_accuracy;
  own.bytes_read = learner.bytes_read();
  if (!settings->in_virtual_time()) {
    const observe::CpuSeconds cpu = observe::cpu_seconds();
    own.process =
        report::ProcessUse{cpu.user, cpu.system, observe::proportional_memory(), observe::peak_resident_memory()};
  }
  own.parameters_hash = numeric::hash(weights);
  if (!recorder.ages().empty()) own.staleness = recorder.ages();
  run.seconds = own.seconds;
  run.bytes = own.bytes;
  run.exchange_payload_sent = own.exchange_payload_sent;
  run.evaluation_payload_sent = own.evaluation_payload_sent;
  run.images_per_second = own.images_per_second;
  run.ranks = {own};
  return run;
}

}  // namespace ripieno::program
