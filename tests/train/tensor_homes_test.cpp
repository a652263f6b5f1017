#include "ripieno/train/tensor_homes.h"

#include <gtest/gtest.h>

#include "tests/train/watched_model.h"

namespace ripieno::train {
namespace {

using testing::OddNet;

TEST(TensorHomes, WhatLiesElsewhereIsBroughtBack) {
  auto module = std::make_shared<OddNet>();
  FlatModel flat(module, {});
  TensorHomes homes(flat);
  EXPECT_TRUE(homes.is_in_place());
  EXPECT_FALSE(homes.bring_back());
  const auto before = homes.sample();

  const torch::NoGradGuard no_grad;
  module->last->bias.set_data(torch::full({3}, 7.f));
  EXPECT_FALSE(homes.is_in_place());
  EXPECT_TRUE(homes.bring_back());
  EXPECT_TRUE(homes.is_in_place());
  EXPECT_EQ(flat.index_of(module->last->bias), 5u);
  const auto after = homes.sample();
  ASSERT_EQ(after.size(), before.size());
  EXPECT_EQ(std::vector<double>(after.end() - 3, after.end()), std::vector<double>(3, 7));
  EXPECT_TRUE(std::equal(before.begin(), before.end() - 3, after.begin()));
}

TEST(TensorHomes, OtherFormsAreRefusedByName) {
  const auto trouble_after = [](const auto& change) -> std::string {
    auto module = std::make_shared<OddNet>();
    FlatModel flat(module, {});
    TensorHomes homes(flat);
    change(*module);
    try {
      homes.bring_back();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.what();
    }
    return "";
  };
  EXPECT_NE(trouble_after([](OddNet& net) {
              net.last->to(torch::kFloat64);
            }).find("last.weight is of shape [3, 4], type Double"),
            std::string::npos);
  EXPECT_NE(trouble_after([](OddNet& net) { net.last->bias.set_data(torch::zeros({4})); }).find("last.bias"),
            std::string::npos);
  EXPECT_NE(trouble_after([](OddNet& net) { net.frozen->bias.requires_grad_(true); }).find("frozen.bias was frozen"),
            std::string::npos);
  EXPECT_EQ(trouble_after([](OddNet&) {}), "");
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
}  // namespace ripieno::train
