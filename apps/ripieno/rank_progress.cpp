#include "apps/ripieno/rank_progress.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "ripieno/report/format.h"

namespace ripieno::program {
namespace {

const Duration between_lines = from_seconds(0.1);

/// JSON has no numbers that are not finite.
nlohmann::json finite_or_null(double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(); }

}  // namespace

RankProgress::RankProgress(observe::Recorder& recorder, const Runtime& runtime, const strategy::Plan& plan,
                           TrainedRank who, TellLauncher report)
    : runtime_(runtime), plan_(plan), who_(who), report_(std::move(report)), start_(runtime.now()) {
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
  const Duration now = runtime_.now();
  if (now - last_ < between_lines && !runtime_.is_virtual()) return;
  last_ = now;
  const double elapsed = seconds(now - start_);
  const double all = static_cast<double>(who_.steps_per_epoch) * plan_.epochs;
  const double total = plan_.max_steps > 0 ? std::min(all, static_cast<double>(plan_.max_steps)) : all;
  const double first = static_cast<double>(who_.steps_per_epoch) * plan_.first_epoch;
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

void RankProgress::epoch(const observe::EpochRecord& record) {
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
