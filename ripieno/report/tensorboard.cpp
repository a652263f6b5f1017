#include "ripieno/report/tensorboard.h"

#include <algorithm>

#include "ripieno/core/error.h"
#include "ripieno/report/event_file.h"

namespace ripieno::report {

std::string tensorboard_events(const Metrics& metrics) {
  const double start = metrics.start ? metrics.start->unix_time : 0;
  std::string out = event_file::beginning(start);
  auto epoch = metrics.epochs.begin();
  auto sample = metrics.samples.begin();
  std::uint64_t at = 0;
  const auto others_until = [&](std::size_t line) {  // in the order of the file
    while (true) {
      const bool is_epoch = epoch != metrics.epochs.end() && epoch->line < line;
      const bool is_sample = sample != metrics.samples.end() && sample->line < line;
      if (is_epoch && (!is_sample || epoch->line < sample->line)) {
        if (epoch->test) {
          event_file::Scalars scalars{{"test/accuracy", epoch->test->accuracy}};
          if (epoch->test->loss) scalars.push_back({"test/loss", *epoch->test->loss});
          out += event_file::scalars(start + epoch->time, at, scalars);
        }
        ++epoch;
      } else if (is_sample) {
        const double span = std::max(1e-9, sample->seconds);
        out += event_file::scalars(start + sample->time, at,
                                   {{"cpu/user", sample->cpu_user / span},
                                    {"cpu/system", sample->cpu_system / span},
                                    {"memory/resident", sample->resident},
                                    {"network/sent_bytes_per_s", sample->bytes_sent / span},
                                    {"network/received_bytes_per_s", sample->bytes_received / span}});
        ++sample;
      } else {
        return;
      }
    }
  };
  for (const StepLine& step : metrics.steps) {
    others_until(step.line);
    at = step.step;
    event_file::Scalars scalars{{"train/samples", step.samples}};
    if (step.loss) scalars.push_back({"train/loss", *step.loss});
    for (const observe::StageInfo& one : observe::stages) {
      if (one.kind != observe::StageKind::between_steps && observe::is_shown(one, step.seconds[one.stage]))
        scalars.push_back({text("seconds/", one.name), step.seconds[one.stage]});
    }
    if (step.bytes) scalars.push_back({"bytes/payload_sent", static_cast<double>(step.bytes->payload_sent)});
    out += event_file::scalars(start + step.time, at, scalars);
  }
  others_until(SIZE_MAX);
  return out;
}

}  // namespace ripieno::report
