// 3 x 3 convolutions of stride 1 by Winograd's minimal filtering (kernels/winograd_kernels.h), forward and backward:
// the transforms there, and a matrix product at each point. They need a quarter to a half of the multiplications.
// Numbers at points and their products are fp32, whatever the images are: rounding errors are two to three times those
// of the direct sums, too much for 16 bits.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <optional>
#include <vector>

#include "ripieno/kernels/winograd_kernels.h"

namespace ripieno::fused {

/// One convolution of N x I x H x W by O x I x 3 x 3, to N x O x H' x W'. All tensors are on the CPU, channels-last,
/// each of fp32 or bf16; results are of the input's type. Numbers at the points are many times those of images and
/// weights, so that the work is done in parts of which they stay in the cache, by each thread its own: of the batch,
/// with all weights at the points, or, where the weights are more, of the channels, with all images.
class Winograd {
 public:
  /// None where the direct sums are as fast, by the number of operations: few channels, pixels or images, or another
  /// form. `direct`: what a product costs there, where one in fp32 costs 1.
  static std::optional<Winograd> of(torch::IntArrayRef input, torch::IntArrayRef weight, std::int64_t stride,
                                    std::int64_t padding, double direct = 1);

  /// What each pass costs, in products of two fp32 numbers.
  double operations() const { return operations_; }
  /// The weights as both passes take them: at the points, or as they are where parts of them are transformed in each
  /// pass.
  torch::Tensor prepared(const torch::Tensor& weight) const;
  /// `weight` is prepared; `bias`, fp32, may be undefined.
  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias) const;
  /// `gradient`: by the result. Writes the gradient by the weight to a tensor like it and calls `written`, before the
  /// gradient by the input is computed where the batch is not in parts; returns the latter, or undefined where it is
  /// not needed.
  torch::Tensor backward(const torch::Tensor& gradient, const torch::Tensor& input, const torch::Tensor& weight,
                         torch::Tensor weight_gradient, const std::function<void()>& written, bool needs_input) const;

 private:
  torch::Tensor forward_by_images(const torch::Tensor& input, const torch::Tensor& weight_points,
                                  const torch::Tensor& bias) const;
  torch::Tensor forward_by_channels(const torch::Tensor& input, const torch::Tensor& weight,
                                    const torch::Tensor& bias) const;
  torch::Tensor backward_by_images(const torch::Tensor& gradient, const torch::Tensor& input,
                                   const torch::Tensor& weight_points, torch::Tensor weight_gradient,
                                   const std::function<void()>& written, bool needs_input) const;
  torch::Tensor backward_by_channels(const torch::Tensor& gradient, const torch::Tensor& input,
                                     const torch::Tensor& weight, torch::Tensor weight_gradient,
                                     const std::function<void()>& written, bool needs_input) const;
  kernels::Tiling input_tiles(std::int64_t images) const;
  kernels::Tiling result_tiles(std::int64_t images) const;
  kernels::Tiling weight_tiles(std::int64_t outputs) const;
  std::int64_t numbers_an_image() const;
  std::int64_t numbers_of_weights() const;
  bool by_channels() const;
  std::int64_t images_a_part() const;
  std::int64_t channels_a_part(std::int64_t others) const;

  kernels::WinogradTile tile_ = kernels::WinogradTile::two;
  double operations_ = 0;
  std::int64_t padding_ = 0, rows_ = 0, columns_ = 0;  // of tiles an image
  std::vector<std::int64_t> input_, weight_, result_;  // sizes
};

}  // namespace ripieno::fused
