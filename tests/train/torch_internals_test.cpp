#include "ripieno/train/torch_internals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "ripieno/core/error.h"

namespace ripieno::train {
namespace {

TEST(GradientHook, IsCalledOnceAPassAsLongAsItLives) {
  const torch::Tensor w = torch::ones(3, torch::requires_grad());
  int calls = 0;
  std::optional<GradientHook> hook(std::in_place, w, [&] { calls += w.grad().defined() ? 1 : 100; });
  (w * w).sum().backward();
  EXPECT_EQ(calls, 1);
  const torch::Tensor loss = (w * 2).sum();
  hook.reset();
  loss.backward();  // its graph holds what the hook hung in
  EXPECT_EQ(calls, 1);
}

TEST(GradientHook, UsesAreCounted) {
  const torch::Tensor a = torch::ones(3, torch::requires_grad()), b = torch::ones(3, torch::requires_grad());
  const torch::Tensor c = torch::ones(3, torch::requires_grad());
  std::vector<GradientHook> hooks;
  for (const torch::Tensor& tensor : {a, b, c}) hooks.emplace_back(tensor, [] {});
  EXPECT_EQ(uses_of(hooks, (a * b + a * 3).sum()), (std::vector<std::size_t>{2, 1, 0}));
  const torch::Tensor twice = b + c;
  EXPECT_EQ(uses_of(hooks, (twice * twice).sum()), (std::vector<std::size_t>{0, 1, 1})) << "edges, not ways";
  EXPECT_EQ(uses_of(hooks, {}), std::vector<std::size_t>(3));
  EXPECT_EQ(uses_of(hooks, torch::ones(1)), std::vector<std::size_t>(3));
}

TEST(OperatorWatch, SeesWhatOperatorsOfItsThreadTake) {
  const torch::Tensor all = torch::ones({4, 6}), row = all[2], column = all.select(1, 3);
  std::vector<ConstBytes> seen;
  const auto saw = [&](const torch::Tensor& tensor, std::size_t bytes) {
    const bool found = std::any_of(seen.begin(), seen.end(), [&](ConstBytes one) {
      return one.data() == tensor.const_data_ptr() && one.size() == bytes;
    });
    seen.clear();
    return found;
  };
  {
    OperatorWatch watch("test", [&](ConstBytes bytes) { seen.push_back(bytes); });
    row.sum();
    EXPECT_TRUE(saw(row, 24));
    column.sum();
    EXPECT_TRUE(saw(column, (3 * 6 + 1) * 4)) << "to its last element";
    torch::cat({row, row});
    EXPECT_TRUE(saw(row, 24)) << "in a list";
    std::thread([&] { row.sum(); }).join();
    EXPECT_TRUE(seen.empty());
    EXPECT_THROW(OperatorWatch("test", [](ConstBytes) {}), Error);
    row.sum();
    EXPECT_TRUE(saw(row, 24)) << "the first goes on";
  }
  row.sum();
  EXPECT_TRUE(seen.empty());
}

}  // namespace
}  // namespace ripieno::train
