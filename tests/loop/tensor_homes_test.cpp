#include "ripieno/loop/tensor_homes.h"

#include <gtest/gtest.h>

#include "tests/train/watched_model.h"

namespace ripieno::loop {
namespace {

using testing::OddNet;
using train::FlatModel;

TEST(TensorHomes, WhatLiesElsewhereIsNoticed) {
  auto module = std::make_shared<OddNet>();
  FlatModel flat(module, {});
  const TensorHomes homes(flat);
  EXPECT_TRUE(homes.is_in_place());
  module->last->bias.set_data(torch::full({3}, 7.f));
  EXPECT_FALSE(homes.is_in_place());
}

TEST(TensorHomes, KnowsTheModulesParametersAndDescribesThem) {
  auto module = std::make_shared<OddNet>();
  FlatModel flat(module, {});
  const TensorHomes homes(flat);
  for (const auto& parameter : module->parameters()) EXPECT_TRUE(homes.knows(parameter));
  EXPECT_FALSE(homes.knows(torch::zeros({4, 4})));
  EXPECT_FALSE(homes.knows(module->first->weight.detach())) << "another tensor of the same memory";
  const auto lines = homes.lines();
  EXPECT_NE(std::find(lines.begin(), lines.end(), "parameter frozen.bias of shape [4], type Float, frozen"),
            lines.end());
  EXPECT_NE(std::find(lines.begin(), lines.end(), "parameter last.weight of shape [3, 4], type Float, trained"),
            lines.end());
}

}  // namespace
}  // namespace ripieno::loop
