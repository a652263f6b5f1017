#include "apps/ripieno/rank_progress.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "ripieno/report/format.h"
#include "ripieno/report/live.h"

namespace ripieno::program {
namespace {

const Duration between_lines = from_seconds(0.1), between_looks = from_seconds(1);

/// JSON has no numbers that are not finite.
nlohmann::json finite_or_null(double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(); }

}  // namespace

RankProgress::RankProgress(observe::Recorder& recorder, Runtime& runtime, const strategy::Plan& plan, TrainedRank who,
                           TellLauncher report, std::function<std::vector<int>()> awaited)
    : runtime_(runtime),
      plan_(plan),
      who_(who),
      report_(std::move(report)),
      awaited_(std::move(awaited)),
      start_(runtime.now()),
      moved_(start_) {
  if (!runtime.is_virtual()) look_for_waits();
  recorder.on_step = [this](const observe::StepRecord& record) { step(record); };
  recorder.on_epoch = [this](const observe::EpochRecord& record) { epoch(record); };
}

/// Reports the first loss that is not finite at once.
void RankProgress::watch(const char* what, double loss, std::uint64_t step, std::uint32_t epoch) {
  if (!who_.learns || std::isfinite(loss) || not_finite_) return;
  not_finite_ = report::NotFinite{who_.rank, what, report::format_fixed(loss, 0), step, epoch};
  report_({{"type", "not_finite"}, {"text", report::described(*not_finite_)}});
}

void RankProgress::step(const observe::StepRecord& record) {
  if (record.samples > 0) watch("training loss", record.loss, record.step, record.epoch);
  last_step_ = record.step;
  images_ += static_cast<double>(record.samples) * who_.workers;
  ++steps_;
  const Duration now = moved_ = runtime_.now();
  if (now - last_ < between_lines && !runtime_.is_virtual()) return;
  last_ = now;
  const double elapsed = seconds(now - start_);
  const double all = static_cast<double>(who_.steps_per_epoch) * plan_.epochs;
  const double total = plan_.max_steps > 0 ? std::min(all, static_cast<double>(plan_.max_steps)) : all;
  const double first = static_cast<double>(who_.steps_per_epoch) * plan_.first_epoch + plan_.first_step;
  const double done = static_cast<double>(record.step) + 1;
  report_({{"type", "progress"},
           {"epoch", record.epoch + 1},
           {"epochs", plan_.epochs},
           {"fraction", done / total},
           {"images_per_second", images_ / elapsed},
           {"seconds_left", elapsed * (total - done) / (done - first)},
           {"samples", record.samples},
           {"loss", finite_or_null(record.loss)}});
}

/// Now and from time to time.
void RankProgress::look_for_waits() {
  timer_ = runtime_.call_at(runtime_.now() + between_looks, [this] { look_for_waits(); });
  const double still = seconds(runtime_.now() - moved_),
               of_step = steps_ > 0 ? seconds(moved_ - start_) / static_cast<double>(steps_) : 0;
  if (still < report::is_long(of_step)) return;
  const std::vector<int> ranks = awaited_();
  if (!ranks.empty()) report_({{"type", "waiting"}, {"for", ranks}, {"seconds", still}});
}

void RankProgress::epoch(const observe::EpochRecord& record) {
  moved_ = runtime_.now();
  if (std::isnan(record.accuracy)) return;
  watch("test loss", record.loss, last_step_, record.epoch);
  report_({{"type", "epoch"},
           {"epoch", record.epoch + 1},
           {"epochs", plan_.epochs},
           {"seconds", seconds(runtime_.now() - start_)},
           {"accuracy", record.accuracy},
           {"loss", finite_or_null(record.loss)}});
}

}  // namespace ripieno::program
