// The learning rate as a function of training progress; it depends neither on the steps per epoch nor on how often it
// is called. With warm-up it first rises linearly to what its schedule begins with, from warmup_fraction of that for
// one worker (Goyal et al., "Accurate, large minibatch SGD", 2017), then follows its schedule:
//   constant   the full rate
//   step       the full rate, multiplied by step_factor from each of step_epochs on, counted from the start
//   cosine     half a cosine from the full rate to final_fraction of it (Loshchilov and Hutter, "SGDR", 2017)
//   one-cycle  half a cosine up from start_fraction to the full rate, another down to final_fraction (Smith and Topin,
//              "Super-convergence", 2018; the cosine form is that of torch.optim.lr_scheduler.OneCycleLR)
//   triangular the same with straight lines (Smith, "Cyclical learning rates", 2017); with peak_at 0, only down
// Cosine, one-cycle and triangular span the rest of training after the warm-up.
#pragma once

#include <string>
#include <vector>

namespace ripieno::optim {

struct LearningRateOptions {
  std::string schedule = "constant";
  double base = 0.1;                     ///< for one worker, >= 0; the full rate is base * scale
  double warmup_epochs = 0;              ///< >= 0 and less than all epochs; 0: none
  double warmup_fraction = 0.1;          ///< where warm-up starts, in [0, 1]: of `base` (not scaled), of one-cycle's
                                         ///< and triangular's start_fraction of it; 1: Goyal et al.
  std::vector<double> step_epochs = {};  ///< step: ascending, each > 0; those past the end have no effect
  double step_factor = 0.1;              ///< step: > 0
  double final_fraction = 0;     ///< cosine, one-cycle, triangular: the last rate, a fraction of the full one in [0, 1]
  double peak_at = 0.3;          ///< one-cycle, triangular: the point of the cycle with the full rate, in [0, 1)
  double start_fraction = 0.04;  ///< one-cycle, triangular: the first rate, a fraction of the full one in [0, 1]
};

class LearningRate {
 public:
  /// `scale` multiplies the base: the world size for the linear scaling rule, else 1. Throws Error(usage), with the
  /// option and its value, on an unknown schedule (listing the known ones) or a value out of range.
  LearningRate(LearningRateOptions options, double total_epochs, double scale);

  /// The rate after `epochs_done` (possibly fractional, >= 0) epochs of training; past the end it stays at its last
  /// value.
  double at(double epochs_done) const;

 private:
  double scheduled(double epochs_done) const;

  LearningRateOptions options_;
  double total_epochs_;
  double full_;
  double (*fraction_)(const LearningRateOptions&, double epochs_done, double progress);
};

}  // namespace ripieno::optim
