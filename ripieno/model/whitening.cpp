#include "ripieno/model/whitening.h"

#include <algorithm>

namespace ripieno::model {

torch::Tensor whitening_filters(const torch::Tensor& images, std::int64_t size, double epsilon) {
  const torch::NoGradGuard no_grad;
  const std::int64_t n = images.size(0), channels = images.size(1), length = channels * size * size;
  torch::Tensor moments = torch::zeros({length, length}, torch::kFloat64);
  std::int64_t patches = 0;
  for (std::int64_t begin = 0; begin < n; begin += 500) {  // patches of all images at once would take much memory
    const torch::Tensor some = images.narrow(0, begin, std::min<std::int64_t>(500, n - begin)).to(torch::kFloat64);
    const torch::Tensor p =
        torch::im2col(some, {size, size}, {1, 1}, {0, 0}, {1, 1}).transpose(1, 2).reshape({-1, length});
    moments += torch::mm(p.t(), p);
    patches += p.size(0);
  }
  auto [values, vectors] = torch::linalg_eigh(moments / patches);
  torch::Tensor filters = vectors.t();
  const torch::Tensor largest = filters.gather(1, filters.abs().argmax(1, /*keepdim=*/true));
  filters = filters * largest.sign() / (values + epsilon).sqrt().unsqueeze(1);
  return torch::cat({filters, -filters}).reshape({2 * length, channels, size, size}).to(images.scalar_type());
}

}  // namespace ripieno::model
