// Convolutions of small images (4 x 4 and less) of stride 1 as matrix products: for each pixel of the result and each
// row of the kernel, one product of the pixels under that row, of all images, with the row's weights. Kernel positions
// outside the image cost nothing; for a padded 2 x 2 image and a 3 x 3 kernel they are more than half.
#pragma once

#include <torch/torch.h>

#include <optional>
#include <vector>

namespace ripieno::fused {

/// One convolution of N x I x H x W by O x I x K x K, to N x O x H' x W'. All tensors are of one type, on the CPU,
/// channels-last.
class PixelProducts {
 public:
  /// nullopt for larger images and other forms.
  static std::optional<PixelProducts> of(torch::IntArrayRef input, torch::IntArrayRef weight, std::int64_t stride,
                                         std::int64_t padding);

  /// The number of multiplications in each pass.
  double operations() const;
  /// `bias` may be undefined.
  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias) const;
  /// `gradient` is by the result. Returns the gradient by the input.
  torch::Tensor input_gradient(const torch::Tensor& gradient, const torch::Tensor& weight) const;
  /// Writes the gradient by the weight to `to`, of any type.
  void weight_gradient(const torch::Tensor& gradient, const torch::Tensor& input, const torch::Tensor& to) const;

 private:
  /// The pixel `out` of the result uses `count` pixels of an image row, from `in` on, with as many kernel positions,
  /// from `place` on (all counted row by row).
  struct Meeting {
    std::int64_t out, in, place, count;
  };
  std::int64_t padding_ = 0;
  std::vector<std::int64_t> input_, weight_, result_;  // sizes
  std::vector<Meeting> meetings_;                      // in the order of `out`
};

}  // namespace ripieno::fused
