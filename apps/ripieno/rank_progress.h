// A rank's messages to its launcher during training: progress a few times a second, the end of each epoch, and the
// first loss that is not finite.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "ripieno/observe/recorder.h"
#include "ripieno/report/summary.h"
#include "ripieno/strategy/strategy.h"

namespace ripieno::program {

/// {"type": "progress" | "epoch" | "note" | "not_finite", ...}
using TellLauncher = std::function<void(const nlohmann::json&)>;

/// The training rank.
struct TrainedRank {
  int rank = 0, workers = 1;
  std::uint64_t steps_per_epoch = 0;
  bool learns = true;  ///< losses are computed
};

/// Listens to a rank's recorder; both must outlive the recording.
class RankProgress {
 public:
  RankProgress(observe::Recorder& recorder, const Runtime& runtime, const strategy::Plan& plan, TrainedRank who,
               TellLauncher report);

  const std::optional<report::NotFinite>& not_finite() const { return not_finite_; }

 private:
  void watch(const char* what, double loss, std::uint64_t step, std::uint32_t epoch);
  void step(const observe::StepRecord& record);
  void epoch(const observe::EpochRecord& record);

  const Runtime& runtime_;
  const strategy::Plan plan_;
  const TrainedRank who_;
  const TellLauncher report_;
  const Duration start_;
  Duration last_{0};
  std::uint64_t last_step_ = 0;
  double images_ = 0;
  std::optional<report::NotFinite> not_finite_;
};

}  // namespace ripieno::program
