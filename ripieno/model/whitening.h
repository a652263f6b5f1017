// Whitening: filters of a first convolution that give the patches of images unit covariance, so that what follows
// starts with inputs that do not depend on each other. Source: Page, "How to train your ResNet", part 8, 2019; with
// each filter's negative beside it tysam-code, hlb-CIFAR10, 2023.
#pragma once

#include <torch/torch.h>

namespace ripieno::model {

/// Of N x C x H x W images (any floating-point type), N >= 1: 2 C s^2 filters of C x `size` x `size`, s = `size`, in
/// the images' type: the eigenvectors v of the patches' second moments E[p p^T], each as v / sqrt(value + epsilon), in
/// the order of rising values; then their negatives. Sums are in fp64. The sign of each v is such that its largest
/// number is positive.
torch::Tensor whitening_filters(const torch::Tensor& images, std::int64_t size, double epsilon = 5e-4);

}  // namespace ripieno::model
