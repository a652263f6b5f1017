#include "ripieno/report/merge.h"

#include <algorithm>
#include <numeric>

#include "ripieno/core/error.h"

namespace ripieno::report {
namespace {

/// A sum is known if all its parts are.
void add_known(std::optional<std::uint64_t>& sum, const std::optional<std::uint64_t>& part) {
  if (sum && part) {
    *sum += *part;
  } else {
    sum.reset();
  }
}

double sum(const std::vector<double>& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0.0); }

}  // namespace

Summary merge_ranks(std::vector<Summary> ranks) {
  require(!ranks.empty(), "a run's summary of no ranks");
  std::sort(ranks.begin(), ranks.end(),
            [](const Summary& a, const Summary& b) { return a.ranks[0].rank < b.ranks[0].rank; });
  Summary run = ranks.front();
  run.ranks.clear();
  run.seconds = {};
  run.bytes = {};
  run.test.reset();
  run.not_finite.reset();
  run.images_per_second = 0;
  run.exchange_payload_sent = 0;
  run.closed_form_payload_sent = run.evaluation_payload_sent = 0;
  double images = 0, rates = 0;
  for (const Summary& one : ranks) {
    const RankSummary& rank = one.ranks.front();
    run.ranks.push_back(rank);
    if (!run.test) run.test = one.test;
    if (one.not_finite && (!run.not_finite || one.not_finite->step < run.not_finite->step))
      run.not_finite = one.not_finite;
    run.steps = std::max(run.steps, one.steps);
    images += rank.images_per_second * sum(rank.seconds.epoch);
    rates += rank.images_per_second;
    run.bytes.payload_sent += rank.bytes.payload_sent;
    run.bytes.payload_received += rank.bytes.payload_received;
    run.bytes.framing_sent += rank.bytes.framing_sent;
    run.bytes.framing_received += rank.bytes.framing_received;
    run.exchange_payload_sent += one.exchange_payload_sent;
    add_known(run.closed_form_payload_sent, one.closed_form_payload_sent);
    add_known(run.evaluation_payload_sent, one.evaluation_payload_sent);
    run.seconds.total = std::max(run.seconds.total, rank.seconds.total);
    auto& epochs = run.seconds.epoch;
    epochs.resize(std::max(epochs.size(), rank.seconds.epoch.size()));
    for (std::size_t i = 0; i < rank.seconds.epoch.size(); ++i) epochs[i] = std::max(epochs[i], rank.seconds.epoch[i]);
    const double share = 1.0 / static_cast<double>(ranks.size());
    for (const observe::StageInfo& one : observe::stages)
      run.seconds.stages[one.stage] += rank.seconds.stages[one.stage] * share;
  }
  const double all_epochs = sum(run.seconds.epoch);
  run.images_per_second = run.unfinished || all_epochs == 0 ? rates : images / all_epochs;
  return run;
}

}  // namespace ripieno::report
