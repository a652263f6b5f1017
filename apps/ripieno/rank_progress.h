// A rank's messages to its launcher during training: progress a few times a second, the end of each epoch, the first
// loss that is not finite, and, while no step ends for long, whom the rank waits for.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "ripieno/observe/recorder.h"
#include "ripieno/report/summary.h"
#include "ripieno/strategy/strategy.h"

namespace ripieno::program {

/// {"type": "progress" | "waiting" | "epoch" | "note" | "not_finite", ...}
using TellLauncher = std::function<void(const nlohmann::json&)>;

/// The training rank.
struct TrainedRank {
  int rank = 0, workers = 1;
  std::uint64_t steps_per_epoch = 0;
  bool learns = true;  ///< losses are computed
};

/// Listens to a rank's recorder; both must outlive the recording. `awaited`: the ranks that this rank waits for.
class RankProgress {
 public:
  RankProgress(observe::Recorder& recorder, Runtime& runtime, const strategy::Plan& plan, TrainedRank who,
               TellLauncher report, std::function<std::vector<int>()> awaited);
  ~RankProgress() {
    if (timer_) runtime_.cancel(*timer_);
  }
  RankProgress(const RankProgress&) = delete;
  RankProgress& operator=(const RankProgress&) = delete;

  const std::optional<report::NotFinite>& not_finite() const { return not_finite_; }

 private:
  void watch(const char* what, double loss, std::uint64_t step, std::uint32_t epoch);
  void step(const observe::StepRecord& record);
  void epoch(const observe::EpochRecord& record);
  void look_for_waits();

  Runtime& runtime_;
  const strategy::Plan plan_;
  const TrainedRank who_;
  const TellLauncher report_;
  const std::function<std::vector<int>()> awaited_;
  const Duration start_;
  Duration moved_;  ///< when a step or an epoch has ended last
  std::uint64_t steps_ = 0;
  std::optional<Runtime::Timer> timer_;
  Duration last_{0};
  std::uint64_t last_step_ = 0;
  double images_ = 0;
  std::optional<report::NotFinite> not_finite_;
};

}  // namespace ripieno::program
