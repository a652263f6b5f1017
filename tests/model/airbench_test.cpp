#include <gtest/gtest.h>

#include "ripieno/model/families.h"
#include "ripieno/model/whitening.h"

namespace ripieno::model {
namespace {

/// Images whose neighbouring pixels and channels go together.
torch::Tensor smooth_images(std::int64_t n) {
  torch::manual_seed(3);
  const torch::Tensor noise = torch::randn({n, 3, 34, 34}, torch::kFloat64);
  return torch::avg_pool2d(noise, 3, 1) + 0.3 * noise.mean({1, 2, 3}, true);
}

/// E[y y^T] of a layer's outputs over images and pixels.
torch::Tensor moments(const torch::Tensor& y) {
  const torch::Tensor rows = y.transpose(0, 1).flatten(1);
  return torch::mm(rows, rows.t()) / rows.size(1);
}

TEST(Whitening, GivesPatchesUnitCovariance) {
  const torch::Tensor images = smooth_images(600);  // more than are summed up at once
  const torch::Tensor filters = whitening_filters(images, 2, 0);
  ASSERT_EQ(filters.sizes().vec(), (std::vector<std::int64_t>{24, 3, 2, 2}));
  const torch::Tensor white = moments(torch::conv2d(images, filters.narrow(0, 0, 12)));
  EXPECT_TRUE(torch::allclose(white, torch::eye(12, torch::kFloat64), 0, 1e-8)) << white;
  EXPECT_FALSE(torch::allclose(moments(images), torch::eye(3, torch::kFloat64), 0, 0.5));
  EXPECT_TRUE(torch::equal(filters.narrow(0, 12, 12), -filters.narrow(0, 0, 12)));
}

TEST(Whitening, EpsilonHoldsDownWhatHardlyVaries) {
  torch::Tensor images = smooth_images(50);
  images.select(1, 2).copy_(images.select(1, 1));  // two channels alike: some eigenvalues are 0
  const torch::Tensor filters = whitening_filters(images, 2, 1e-2);
  EXPECT_TRUE(filters.isfinite().all().item<bool>());
  EXPECT_LE(filters.flatten(1).norm(2, 1).max().item<double>(), 10 + 1e-9);
}

TEST(Airbench, StartsWithConvolutionsThatHandOn) {
  torch::manual_seed(1);
  const auto model = make_airbench();
  for (const auto& item : model->named_parameters()) {
    if (item.key().find("conv") == std::string::npos) continue;
    const torch::Tensor& w = item.value();
    torch::Tensor x = torch::randn({2, w.size(1), 5, 5});
    EXPECT_TRUE(torch::allclose(torch::conv2d(x, w, {}, 1, 1).narrow(1, 0, w.size(1)), x, 0, 1e-6)) << item.key();
    if (w.size(0) > w.size(1)) {
      EXPECT_GT(w.narrow(0, w.size(1), 1).std().item<float>(), 0) << item.key();
    }
  }
}

TEST(Airbench, PreparesItsFirstLayerFromImagesAlone) {
  torch::manual_seed(1);
  const auto model = make_airbench(), again = make_airbench();
  ASSERT_EQ(model->images_to_prepare(), 5000u);
  const torch::Tensor images = smooth_images(20).to(torch::kFloat32);
  model->prepare(images);
  again->prepare(images);
  const torch::Tensor first = model->named_parameters()["whiten.weight"];
  EXPECT_FALSE(first.requires_grad());
  EXPECT_TRUE(torch::equal(first, again->named_parameters()["whiten.weight"]));
  EXPECT_TRUE(torch::allclose(first, whitening_filters(images, 2)));
}

}  // namespace
}  // namespace ripieno::model
