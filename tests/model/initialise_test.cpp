#include "ripieno/model/initialise.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace ripieno::model {
namespace {

constexpr Initialisation drawn[]{Initialisation::glorot, Initialisation::he, Initialisation::orthogonal};

/// 8 x 9 numbers go into an output of the convolution, 16 x 9 come out of an input.
struct Net : torch::nn::Module {
  Net() {
    convolution = register_module("convolution", torch::nn::Conv2d(8, 16, 3));
    norm = register_module("norm", torch::nn::BatchNorm2d(16));
    linear = register_module("linear", torch::nn::Linear(500, 300));
    frozen = register_module("frozen", torch::nn::Linear(4, 4));
    for (torch::Tensor& one : frozen->parameters()) one.set_requires_grad(false);
  }
  torch::nn::Conv2d convolution{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear linear{nullptr}, frozen{nullptr};
};

std::shared_ptr<Net> net(Initialisation how, std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  auto made = std::make_shared<Net>();
  initialise(*made, how);
  return made;
}

double deviation(const torch::Tensor& weight) { return weight.std().item<double>(); }

TEST(Initialise, GlorotIsUniformByBothSides) {
  const auto made = net(Initialisation::glorot);
  for (const auto& [weight, sides] :
       {std::pair{made->convolution->weight, 8 * 9 + 16 * 9}, std::pair{made->linear->weight, 800}}) {
    EXPECT_LE(weight.abs().max().item<double>(), std::sqrt(6.0 / sides));
    EXPECT_GT(weight.abs().max().item<double>(), 0.98 * std::sqrt(6.0 / sides));
    EXPECT_NEAR(deviation(weight), std::sqrt(2.0 / sides), 0.05 * std::sqrt(2.0 / sides));
  }
}

TEST(Initialise, HeIsNormalByWhatGoesIn) {
  const auto made = net(Initialisation::he);
  EXPECT_NEAR(deviation(made->convolution->weight), std::sqrt(2.0 / 72), 0.05 * std::sqrt(2.0 / 72));
  EXPECT_NEAR(deviation(made->linear->weight), std::sqrt(2.0 / 500), 0.02 * std::sqrt(2.0 / 500));
  EXPECT_GT(made->linear->weight.abs().max().item<double>(), 3 * std::sqrt(2.0 / 500)) << "as no uniform distribution";
}

TEST(Initialise, OrthogonalHasOrthonormalRows) {
  const auto made = net(Initialisation::orthogonal);
  for (const torch::Tensor& weight : {made->linear->weight, made->convolution->weight.flatten(1)}) {
    const auto identity = torch::eye(weight.size(0));
    EXPECT_TRUE(torch::allclose(weight.matmul(weight.t()), identity, 1e-4, 1e-5));
  }
}

TEST(Initialise, BiasesAreZeroAndNothingElseIsTouched) {
  for (const Initialisation how : drawn) {
    const auto made = net(how), before = net(Initialisation::standard);
    EXPECT_EQ(made->convolution->bias.abs().sum().item<double>(), 0);
    EXPECT_EQ(made->linear->bias.abs().sum().item<double>(), 0);
    EXPECT_TRUE(torch::equal(made->norm->weight, before->norm->weight));
    EXPECT_TRUE(torch::equal(made->frozen->weight, before->frozen->weight));
    EXPECT_TRUE(torch::equal(made->frozen->bias, before->frozen->bias));
    EXPECT_FALSE(torch::equal(made->linear->weight, before->linear->weight));
  }
}

TEST(Initialise, FollowsTheSeed) {
  for (const Initialisation how : drawn) {
    EXPECT_TRUE(torch::equal(net(how, 7)->linear->weight, net(how, 7)->linear->weight));
    EXPECT_FALSE(torch::equal(net(how, 7)->linear->weight, net(how, 8)->linear->weight));
  }
}

}  // namespace
}  // namespace ripieno::model
