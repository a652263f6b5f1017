#include "ripieno/report/measures.h"

#include <algorithm>
#include <limits>

#include "ripieno/core/edit_distance.h"
#include "ripieno/core/error.h"
#include "ripieno/report/statistics.h"

namespace ripieno::report {
namespace {

using Number = std::optional<double>;

/// The median worker's value: a root or a server among them is not typical.
Number a_worker(const Run& run, const std::function<Number(const RankSummary&)>& value) {
  std::vector<double> all;
  for (const int rank : run.workers()) {
    for (const RankSummary& one : run.summary.ranks) {
      const Number number = one.rank == rank ? value(one) : Number();
      if (number) all.push_back(*number);
    }
  }
  return all.empty() ? Number() : Number(median(all));
}

const Measure known_measures[] = {
    {"accuracy",
     "accuracy, %",
     [](const Run& run) { return run.summary.test ? Number(100 * run.summary.test->accuracy) : Number(); },
     {"test", "accuracy"}},
    {"accuracy_own", "accuracy of workers' own weights, %",
     [](const Run& run) {
       std::vector<double> all;
       for (const RankSummary& one : run.summary.ranks) {
         if (one.own_accuracy) all.push_back(100 * *one.own_accuracy);
       }
       if (!all.empty()) return Number(mean(all));
       return run.summary.test ? Number(100 * run.summary.test->accuracy) : Number();  // all hold the same
     }},
    {"loss",
     "loss",
     [](const Run& run) { return run.summary.test ? Number(run.summary.test->loss) : Number(); },
     {"test", "loss"}},
    {"s_total", "s in all", [](const Run& run) { return Number(run.summary.seconds.total); }, {"seconds", "total"}},
    {"s_epoch", "s an epoch", [](const Run& run) { return run.summary.epoch_seconds(); }, {"seconds", "epoch"}},
    {"s_step", "s a step",
     [](const Run& run) { return mean_step(run, [](const StageSeconds& s) { return s.steps(); }); }},
    {"s_read", "s of reading a step", [](const Run& run) { return mean_step(run, observe::Stage::read); }},
    {"s_forward", "s forward a step", [](const Run& run) { return mean_step(run, observe::Stage::forward); }},
    {"s_backward", "s backward a step", [](const Run& run) { return mean_step(run, observe::Stage::backward); }},
    {"s_gradient", "s forward and backward a step",
     [](const Run& run) {
       return mean_step(run,
                        [](const StageSeconds& s) { return s[observe::Stage::forward] + s[observe::Stage::backward]; });
     }},
    {"s_exchange", "s of exchange a step, waited for",
     [](const Run& run) { return mean_step(run, observe::Stage::exchange); }},
    {"images_s",
     "images/s",
     [](const Run& run) {
       return run.summary.images_per_second > 0 ? Number(run.summary.images_per_second) : Number();
     },
     {"images_per_second"}},
    {"cpu_user", "CPU, user, % of a core",
     [](const Run& run) {
       return mean_second(run, run.all_ranks(), [](const SampleLine& s) { return 100 * s.cpu_user; });
     }},
    {"cpu_system", "CPU, system, % of a core",
     [](const Run& run) {
       return mean_second(run, run.all_ranks(), [](const SampleLine& s) { return 100 * s.cpu_system; });
     }},
    {"mb_s_sent", "MB/s sent, a node",
     [](const Run& run) {
       return run.is_on_network()
                  ? mean_second(run, run.nodes(), [](const SampleLine& s) { return 1e-6 * s.bytes_sent; })
                  : Number();
     }},
    {"mb_sent",
     "MB sent in all",
     [](const Run& run) { return run.summary.megabytes_sent(run.summary.exchange_payload_sent); },
     {"exchange", "payload_sent"}},
    {"mb_upload", "MB a worker sends an epoch",
     [](const Run& run) {
       const Summary& all = run.summary;
       return a_worker(run, [&all](const RankSummary& rank) {
         const Number sent = all.megabytes_sent(rank.exchange_payload_sent);
         return sent && all.epochs > 0 ? Number(*sent / all.epochs) : Number();
       });
     }},
    {"mb_read", "MB a worker reads",
     [](const Run& run) {
       return a_worker(run, [](const RankSummary& rank) { return 1e-6 * static_cast<double>(rank.bytes_read); });
     }},
    {"mb_memory", "MB of memory at the peak, largest rank",
     [](const Run& run) {
       Number most;
       for (const RankSummary& one : run.summary.ranks) {
         if (one.process && one.process->peak_resident_bytes > 0)
           most = std::max(most.value_or(0), 1e-6 * static_cast<double>(one.process->peak_resident_bytes));
       }
       return most;
     }},
};

/// Seconds since a rank began.
struct CountedTime {
  double from = 0, to = std::numeric_limits<double>::infinity();
};

/// When all workers are past the steps that are left out, to when the last step of one ends.
CountedTime counted_time(const Run& run) {
  const std::uint64_t left_out = run.summary.steps_left_out;
  if (left_out == 0) return {};
  CountedTime window{0, 0};
  for (const int rank : run.workers()) {
    const std::vector<StepLine>& steps = run.ranks[static_cast<std::size_t>(rank)].steps;
    if (left_out <= steps.size()) window.from = std::max(window.from, steps[left_out - 1].time);
    window.to = std::max(window.to, steps.back().time);
  }
  return window;
}

}  // namespace

std::optional<double> mean_step(const Run& run, const std::function<double(const StageSeconds&)>& part) {
  double sum = 0, count = 0;
  for (const int rank : run.workers()) {
    const std::vector<StepLine>& steps = run.ranks[static_cast<std::size_t>(rank)].steps;
    for (std::size_t i = run.summary.steps_left_out; i < steps.size(); ++i) {
      sum += part(steps[i].seconds);
      count += 1;
    }
  }
  return count > 0 ? Number(sum / count) : Number();
}

std::optional<double> mean_step(const Run& run, observe::Stage stage) {
  return mean_step(run, [stage](const StageSeconds& seconds) { return seconds[stage]; });
}

std::optional<double> mean_second(const Run& run, const std::vector<const Metrics*>& ranks,
                                  const std::function<double(const SampleLine&)>& amount) {
  const CountedTime window = counted_time(run);
  double sum = 0, seconds = 0;
  for (const Metrics* rank : ranks) {
    for (const SampleLine& sample : rank->samples) {
      const double within = std::min(sample.time, window.to) - std::max(sample.time - sample.seconds, window.from);
      if (within <= 0) continue;
      sum += amount(sample) * within / sample.seconds;
      seconds += within;
    }
  }
  return seconds > 0 ? Number(sum / seconds) : Number();
}

std::span<const Measure> measures() { return known_measures; }

const Measure& find_measure(std::string_view name) { return find_named(known_measures, name, "measure"); }

}  // namespace ripieno::report
