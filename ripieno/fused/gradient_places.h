// Lends memory to the fused operations of this room for the gradients of parameters, so that a gradient is computed in
// its final place and never copied. Without a lender they allocate. The lender also tells whether a parameter arrives,
// and its gradient leaves, in parts, so that an operation can use each part as soon as it is there.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace ripieno::fused {

class GradientPlaces {
 public:
  virtual ~GradientPlaces() = default;
  /// Memory with the parameter's type, shape and strides, which the caller must write completely, and which is lent
  /// only once in this pass; undefined if there is none. `parameter` is identified by its address.
  virtual torch::Tensor take(const torch::Tensor& parameter) = 0;
  /// Tells that the gradient is complete in its taken place, where it may change from now on. The operation may still
  /// read the parameter.
  virtual void written(const torch::Tensor& parameter) = 0;
  /// The parts of a parameter, each some of its rows (first dimension), in order; empty if it is not divided.
  virtual std::vector<torch::Tensor> parts(const torch::Tensor& parameter) = 0;
  /// As written(), for one part.
  virtual void part_written(const torch::Tensor& parameter, std::size_t part) = 0;
};

/// Lends to the operations on this thread, for as long as it lives.
class LendGradientPlaces {
 public:
  explicit LendGradientPlaces(GradientPlaces& places);
  ~LendGradientPlaces();
  LendGradientPlaces(const LendGradientPlaces&) = delete;
  LendGradientPlaces& operator=(const LendGradientPlaces&) = delete;

 private:
  GradientPlaces* before_;
};

/// A tensor for the parameter's gradient: a lent one, or a new one.
torch::Tensor place_for_gradient(const torch::Tensor& parameter);

/// Tells the lender, if there is one. Operations should compute their parameters' gradients before their input's, so
/// that the exchange begins earlier.
void gradient_written(const torch::Tensor& parameter);

/// GradientPlaces::parts; none without a lender.
std::vector<torch::Tensor> parts_of(const torch::Tensor& parameter);
void gradient_part_written(const torch::Tensor& parameter, std::size_t part);

}  // namespace ripieno::fused
