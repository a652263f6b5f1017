#include "ripieno/train/flat_model.h"

#include <gtest/gtest.h>

#include "ripieno/model/classifier.h"
#include "ripieno/model/zoo.h"
#include "tests/train/watched_model.h"

namespace ripieno::train {
namespace {

using testing::copy_parameters;
using testing::OddNet;

TEST(FlatModel, TiedIsOneFrozenIsApart) {
  torch::manual_seed(3);
  auto module = std::make_shared<OddNet>();
  const auto x = torch::randn({7, 4});
  const auto before = module->forward(x).detach().clone();
  FlatModel flat(module, {.bucket_bytes = 1});
  EXPECT_TRUE(torch::equal(before, module->forward(x))) << "flattening changed what the model computes";
  EXPECT_EQ(flat.layout().parameters, 16u + 4 + 8 + 2 + 12 + 3);  // first, unused, last
  EXPECT_EQ(flat.parameters().count, flat.layout().parameters);
  EXPECT_EQ(flat.gradients().count, flat.layout().parameters);
  EXPECT_EQ(flat.frozen().count, 20u);
  EXPECT_EQ(flat.first_layer(), 1u) << "the tied weight, by its first name";
}

TEST(FlatModel, BucketsPartitionTheParametersFromTheEnd) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1} << 20, std::size_t{25} << 20, std::size_t{1} << 40}) {
    FlatModel flat(model::zoo().find("mnist-cnn").make(), {.bucket_bytes = bytes});
    std::size_t end = flat.layout().parameters;
    EXPECT_EQ(end, 690590u);
    for (const Range bucket : flat.layout().buckets) {
      EXPECT_EQ(bucket.end, end);
      EXPECT_LT(bucket.begin, bucket.end);
      end = bucket.begin;
    }
    EXPECT_EQ(end, 0u);
  }
}

TEST(FlatModel, ThePartsOfADividedTensorAreViewsOfIt) {
  const auto module = std::make_shared<torch::nn::LinearImpl>(64, 64),
             same = std::make_shared<torch::nn::LinearImpl>(64, 64);
  FlatModel whole(same, {.bucket_bytes = 5000}), flat(module, {.bucket_bytes = 5000, .divide = true});
  EXPECT_EQ(whole.layout().buckets, (std::vector<Range>{{0, 64 * 65}}));
  EXPECT_EQ(flat.layout().buckets, (std::vector<Range>{{32 * 64, 64 * 65}, {0, 32 * 64}}));
  const auto parts = flat.parts_of(module->weight);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_TRUE(torch::equal(torch::cat(parts), module->weight));
  EXPECT_EQ(parts[1].data_ptr(), static_cast<float*>(flat.parameters().data) + 32 * 64) << "views of what is trained";
  EXPECT_TRUE(flat.parts_of(module->bias).empty());
  EXPECT_TRUE(flat.parts_of(same->weight).empty());
  EXPECT_TRUE(whole.parts_of(same->weight).empty());
}

TEST(FlatModel, KnowsItsParametersByAddressAndShape) {
  auto module = std::make_shared<OddNet>();
  FlatModel flat(module, {});
  EXPECT_EQ(flat.index_of(module->first->weight), 0u);
  EXPECT_EQ(flat.index_of(module->last->bias.detach()), 5u);
  EXPECT_FALSE(flat.index_of(module->frozen->weight));
  EXPECT_FALSE(flat.index_of(torch::ones({4, 4})));
  EXPECT_FALSE(flat.index_of(module->first->weight.detach().narrow(0, 0, 1)));
  EXPECT_FALSE(flat.index_of(module->first->weight.detach().narrow(0, 1, 1)));
}

TEST(FlatModel, ChannelsLastComputesTheSame) {
  torch::manual_seed(5);
  auto plain = model::zoo().find("vgg11").make(), last = model::zoo().find("vgg11").make();
  copy_parameters(*last, *plain);
  FlatModel a(plain, {}), b(last, {.channels_last = true});
  const auto x = torch::randn({4, 3, 32, 32});
  const auto y = plain->forward(x), z = last->forward(x.contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(torch::allclose(y, z, 1e-3, 1e-4)) << (y - z).abs().max();
  y.sum().backward();
  z.sum().backward();
  for (const auto& item : last->named_parameters()) {
    const auto expected = plain->named_parameters()[item.key()].grad();
    const double scale = expected.abs().max().item<double>();
    EXPECT_TRUE(torch::allclose(item.value().grad(), expected, 1e-2, 1e-3 * scale)) << item.key();
    EXPECT_TRUE(item.value().dim() != 4 || item.value().is_contiguous(torch::MemoryFormat::ChannelsLast)) << item.key();
  }
}

TEST(FlatModel, RefusesWhatItCannotTrain) {
  auto half = std::make_shared<torch::nn::LinearImpl>(3, 2);
  half->to(torch::kBFloat16);
  EXPECT_THROW(FlatModel(half, {}), Error);
  auto mixed = std::make_shared<torch::nn::SequentialImpl>(torch::nn::Linear(2, 2), torch::nn::Linear(2, 2));
  mixed->children()[0]->to(torch::kFloat64);
  EXPECT_THROW(FlatModel(mixed, {}), Error);
  auto nothing = std::make_shared<torch::nn::ReLUImpl>();
  EXPECT_THROW(FlatModel(nothing, {}), Error);
}

}  // namespace
}  // namespace ripieno::train
