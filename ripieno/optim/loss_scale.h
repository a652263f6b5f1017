// Dynamic loss scaling for fp16 compute: the loss is multiplied by a scale so that small gradients do not vanish in
// fp16. If gradients overflow, the step is skipped and the scale halved; after 2,000 good steps the scale is doubled.
// It stays below fp32's largest number, as in GradScaler, which gradients of 0 would otherwise leave, and above fp16's
// least normal one, below which a loss of 1 would itself vanish, and a scale of 0 never grow again.
// Source: Micikevicius et al., Mixed precision training, ICLR 2018; the numbers are those of torch.amp.GradScaler.
#pragma once

#include <cstdint>

#include "ripieno/core/state.h"

namespace ripieno::optim {

struct LossScaleOptions {
  double initial = 65536;                  ///< > 0
  double growth = 2;                       ///< >= 1
  double backoff = 0.5;                    ///< in (0, 1)
  std::int64_t interval = 2000;            ///< good steps in a row before the scale grows, >= 1
  double least = 0x1p-14, most = 0x1p127;  ///< it changes no further
};

class LossScale {
 public:
  explicit LossScale(LossScaleOptions options = {}) : options_(options), value_(options.initial) {}

  /// The factor of the loss, and so of every gradient.
  double value() const { return value_; }

  /// Call it after every step, with the same value on all ranks that must agree.
  void update(bool finite) {
    if (!finite) {
      if (value_ * options_.backoff >= options_.least) value_ *= options_.backoff;
      good_ = 0;
    } else if (++good_ == options_.interval) {
      if (value_ * options_.growth <= options_.most) value_ *= options_.growth;
      good_ = 0;
    }
  }

  void visit(StateVisitor& visitor) {
    visitor.span("loss_scale.value", NumberSpan(&value_, 1, DType::fp64));
    visitor.number("loss_scale.good_steps", good_);
  }

 private:
  LossScaleOptions options_;
  double value_;
  std::int64_t good_ = 0;
};

}  // namespace ripieno::optim
