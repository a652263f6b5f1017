// 3 x 3 convolutions of stride 1 by Winograd's minimal filtering (kernels/winograd_kernels.h), forward and backward:
// its transforms and a matrix product at each point. They need a quarter to a half of the multiplications. Numbers at
// points and their products are always fp32: rounding errors are two to three times those of direct sums, too large for
// 16 bits.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <optional>
#include <vector>

#include "ripieno/kernels/winograd_kernels.h"

namespace ripieno::fused {

/// One convolution of N x I x H x W by O x I x 3 x 3, to N x O x H' x W'. All tensors are on the CPU, channels-last,
/// each of fp32 or bf16; results are of the input's type. There are many times more numbers at the points than in
/// images and weights, so each thread works on parts whose numbers at the points stay in the cache: parts of the batch,
/// with all weights, or, if there are more weights, parts of the channels, with all images.
class Winograd {
 public:
  /// nullopt if direct sums need no more operations (few channels, pixels or images), and for other forms. `direct`:
  /// the cost of a product in direct sums, relative to fp32.
  static std::optional<Winograd> of(torch::IntArrayRef input, torch::IntArrayRef weight, std::int64_t stride,
                                    std::int64_t padding, double direct = 1);

  /// The cost of each pass, in products of two fp32 numbers.
  double operations() const { return operations_; }
  /// The weights as both passes need them: at the points, or unchanged if each pass transforms parts of them.
  torch::Tensor prepared(const torch::Tensor& weight) const;
  /// `weight` is prepared; `bias`, fp32, may be undefined.
  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias) const;
  /// `gradient` is by the result. Writes the gradient by the weight to `weight_gradient`, which has the weight's shape,
  /// and calls `written`, if the batch is not in parts before it computes the gradient by the input. Returns the
  /// latter, or undefined if it is not needed.
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
