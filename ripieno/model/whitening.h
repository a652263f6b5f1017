// Whitening: filters of a first convolution that give the patches of images unit covariance, so that later layers start
// with uncorrelated inputs. Source: Page, "How to train your ResNet", part 8, 2019; the negative of each filter:
// tysam-code, hlb-CIFAR10, 2023.
#pragma once

#include <torch/torch.h>

namespace ripieno::model {

/// From N x C x H x W images (any floating-point type), N >= 1, makes 2 C s^2 filters of C x s x s, s = `size`, in the
/// images' type: for each eigenvector v of the patches' second moments E[p p^T], v / sqrt(eigenvalue + epsilon), by
/// ascending eigenvalue; then their negatives. Sums are in fp64. The sign of v makes its largest number positive.
torch::Tensor whitening_filters(const torch::Tensor& images, std::int64_t size, double epsilon = 5e-4);

}  // namespace ripieno::model
