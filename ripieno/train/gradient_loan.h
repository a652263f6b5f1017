// Lends the memory of a BackwardWatch's gradients to the fused operations that run on this thread
// (fused/gradient_places.h). Without that room (RIPIENO_KERNELS=OFF) it does nothing. Nothing else in this room knows
// of fused operations.
#pragma once

#include "ripieno/train/backward_watch.h"

#ifdef RIPIENO_KERNELS
#include "ripieno/fused/gradient_places.h"

namespace ripieno::train {

/// Lends for as long as it lives. The watch must outlive it.
class GradientLoan final : public fused::GradientPlaces {
 public:
  explicit GradientLoan(BackwardWatch& watch) : watch_(watch), lend_(*this) {}
  torch::Tensor take(const torch::Tensor& parameter) override { return watch_.take(parameter); }
  void written(const torch::Tensor& parameter) override { watch_.written(parameter); }
  std::vector<torch::Tensor> parts(const torch::Tensor& parameter) override { return watch_.parts(parameter); }
  void part_written(const torch::Tensor& parameter, std::size_t part) override { watch_.part_written(parameter, part); }

 private:
  BackwardWatch& watch_;
  fused::LendGradientPlaces lend_;
};

}  // namespace ripieno::train

#else

namespace ripieno::train {

class GradientLoan {
 public:
  explicit GradientLoan(BackwardWatch&) {}
};

}  // namespace ripieno::train

#endif
