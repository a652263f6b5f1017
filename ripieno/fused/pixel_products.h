// Convolutions of small images (4 x 4 and less) of stride 1 as matrix products: for each pixel of the result and each
// row of the kernel one product of the pixels that it meets, of all images, with its weights. Places of the kernel that
// lie beside the image cost nothing: padded for a 3 x 3 kernel, they are more than half of a 2 x 2 image's.
#pragma once

#include <torch/torch.h>

#include <optional>
#include <vector>

namespace ripieno::fused {

/// One convolution of N x I x H x W by O x I x K x K, to N x O x H' x W'. All tensors are of one type, on the CPU,
/// channels-last.
class PixelProducts {
 public:
  /// None where images are larger, or of another form.
  static std::optional<PixelProducts> of(torch::IntArrayRef input, torch::IntArrayRef weight, std::int64_t stride,
                                         std::int64_t padding);

  /// Products of two numbers, in each pass.
  double operations() const;
  /// `bias` may be undefined.
  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias) const;
  /// `gradient`: by the result. Returns the gradient by the input.
  torch::Tensor input_gradient(const torch::Tensor& gradient, const torch::Tensor& weight) const;
  /// Writes the gradient by the weight to `to`, of any type.
  void weight_gradient(const torch::Tensor& gradient, const torch::Tensor& input, const torch::Tensor& to) const;

 private:
  /// `count` pixels of a row of the image, from `in` on, which the pixel `out` of the result meets with as many places
  /// of the kernel, from `place` on (all counted row by row).
  struct Meeting {
    std::int64_t out, in, place, count;
  };
  std::int64_t padding_ = 0;
  std::vector<std::int64_t> input_, weight_, result_;  // sizes
  std::vector<Meeting> meetings_;                      // in the order of `out`
};

}  // namespace ripieno::fused
