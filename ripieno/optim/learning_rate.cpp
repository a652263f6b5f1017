#include "ripieno/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "ripieno/core/error.h"

namespace ripieno::optim {
namespace {

using Options = LearningRateOptions;

/// Exactly `from` at progress 0 and `to` at 1.
double half_cosine(double from, double to, double progress) {
  return std::lerp(from, to, 0.5 * (1 - std::cos(std::numbers::pi * progress)));
}

// Each gives the fraction of the full rate; `progress` is 0 at the end of the warm-up and 1 at the end of training.
double constant(const Options&, double, double) { return 1; }

double step(const Options& o, double epochs_done, double) {
  const auto passed = std::upper_bound(o.step_epochs.begin(), o.step_epochs.end(), epochs_done) - o.step_epochs.begin();
  return std::pow(o.step_factor, static_cast<double>(passed));
}

double cosine(const Options& o, double, double progress) { return half_cosine(1, o.final_fraction, progress); }

double one_cycle(const Options& o, double, double progress) {
  if (progress < o.peak_at) return half_cosine(o.start_fraction, 1, progress / o.peak_at);
  return half_cosine(1, o.final_fraction, (progress - o.peak_at) / (1 - o.peak_at));
}

double triangular(const Options& o, double, double progress) {
  if (progress < o.peak_at) return std::lerp(o.start_fraction, 1, progress / o.peak_at);
  return std::lerp(1, o.final_fraction, (progress - o.peak_at) / (1 - o.peak_at));
}

struct Schedule {
  const char* name;
  double (*fraction)(const Options&, double, double);
};
constexpr Schedule schedules[] = {
    {"constant", constant}, {"step", step}, {"cosine", cosine}, {"one-cycle", one_cycle}, {"triangular", triangular}};

/// Conditions are written so that NaN fails them.
void check(bool good, const char* option, double value, const char* allowed) {
  if (good && std::isfinite(value)) return;
  fail(ErrorKind::usage, "learning rate: ", option, " = ", value, "; give ", allowed);
}

void check_up_to_1(const char* option, double value) {
  check(value >= 0 && value <= 1, option, value, "a number from 0 to 1");
}

}  // namespace

LearningRate::LearningRate(LearningRateOptions options, double total_epochs, double scale)
    : options_(std::move(options)), total_epochs_(total_epochs), full_(options_.base * scale), fraction_(nullptr) {
  const Options& o = options_;
  check(total_epochs > 0, "epochs", total_epochs, "a number above 0");
  check(scale > 0, "scale", scale, "a number above 0");
  check(o.base >= 0, "base", o.base, "a number of 0 or more");
  check(o.warmup_epochs >= 0 && o.warmup_epochs < total_epochs, "warmup_epochs", o.warmup_epochs,
        text("a number from 0 to below the ", total_epochs, " epochs of training").c_str());
  check_up_to_1("warmup_fraction", o.warmup_fraction);
  double previous = 0;
  for (const double epoch : o.step_epochs) {
    check(epoch > previous, "a number of step_epochs", epoch,
          text("a rising list; the one before is ", previous).c_str());
    previous = epoch;
  }
  check(o.step_factor > 0, "step_factor", o.step_factor, "a number above 0");
  check_up_to_1("final_fraction", o.final_fraction);
  check(o.peak_at >= 0 && o.peak_at < 1, "peak_at", o.peak_at, "a number from 0 to below 1");
  check_up_to_1("start_fraction", o.start_fraction);

  std::string names;
  for (const Schedule& one : schedules) {
    if (o.schedule == one.name) fraction_ = one.fraction;
    names += text(names.empty() ? "" : ", ", one.name);
  }
  if (!fraction_) {
    fail(ErrorKind::usage, "learning rate: schedule = \"", o.schedule, "\" is unknown; the known ones are ", names);
  }
}

double LearningRate::scheduled(double epochs_done) const {
  const double warmup = options_.warmup_epochs;
  const double progress = std::clamp((epochs_done - warmup) / (total_epochs_ - warmup), 0.0, 1.0);
  return full_ * fraction_(options_, epochs_done, progress);
}

double LearningRate::at(double epochs_done) const {
  require(epochs_done >= 0, "learning rate asked for after ", epochs_done, " epochs");
  const double epochs = std::min(epochs_done, total_epochs_);
  const double warmup = options_.warmup_epochs;
  if (epochs >= warmup) return scheduled(epochs);
  const double to = scheduled(warmup);
  const double first = options_.base * fraction_(options_, 0, 0);  // for one worker; a cycle begins low
  const double from = std::min(options_.warmup_fraction * first, to);
  return from + (to - from) * (epochs / warmup);
}

}  // namespace ripieno::optim
