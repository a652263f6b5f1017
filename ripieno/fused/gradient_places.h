// Where the fused operations of this room write the gradients of parameters: memory that someone lends them, so that a
// gradient is computed to where it is wanted and never copied. Without a lender they allocate. The lender also says
// where a parameter comes, and its gradient goes, in parts, so that an operation can use each as soon as it is there.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace ripieno::fused {

class GradientPlaces {
 public:
  virtual ~GradientPlaces() = default;
  /// Memory of the parameter's type, shape and strides, whose whole is going to be written, and that nobody else is
  /// given in this pass; undefined where there is none. `parameter` is known by its address.
  virtual torch::Tensor take(const torch::Tensor& parameter) = 0;
  /// The gradient stands in the place that was taken for it, and may change from now on. The operation has not ended
  /// yet, and may still read the parameter.
  virtual void written(const torch::Tensor& parameter) = 0;
  /// The parts of a parameter, each some of its rows (along its first dimension), in their order; none where it is one.
  virtual std::vector<torch::Tensor> parts(const torch::Tensor& parameter) = 0;
  /// As written(), of one of the parts.
  virtual void part_written(const torch::Tensor& parameter, std::size_t part) = 0;
};

/// Lends to the operations that run on this thread, as long as it lives.
class LendGradientPlaces {
 public:
  explicit LendGradientPlaces(GradientPlaces& places);
  ~LendGradientPlaces();
  LendGradientPlaces(const LendGradientPlaces&) = delete;
  LendGradientPlaces& operator=(const LendGradientPlaces&) = delete;

 private:
  GradientPlaces* before_;
};

/// A tensor like the parameter to write its gradient into: a lent one, or a new one.
torch::Tensor place_for_gradient(const torch::Tensor& parameter);

/// Tells the lender, if there is one. An operation that computes its parameters' gradients first and then that of its
/// input lets their exchange begin so much earlier.
void gradient_written(const torch::Tensor& parameter);

/// GradientPlaces::parts; none without a lender.
std::vector<torch::Tensor> parts_of(const torch::Tensor& parameter);
void gradient_part_written(const torch::Tensor& parameter, std::size_t part);

}  // namespace ripieno::fused
