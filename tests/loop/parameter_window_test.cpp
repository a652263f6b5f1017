// Many passes together look at every bit of every parameter.
#include "ripieno/loop/parameter_window.h"

#include <bit>
#include <limits>
#include <set>

#include "tests/loop/own_nets.h"

namespace ripieno::loop {
namespace {

std::vector<NamedParameter> parameters_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<NamedParameter> all;
  for (std::size_t i = 0; i < tensors.size(); ++i) all.push_back({text("p", i), tensors[i]});
  return all;
}

/// Turns in which the window's hash changes with that number.
std::set<std::uint64_t> seen_in(const std::vector<NamedParameter>& parameters, torch::Tensor number, double other) {
  std::set<std::uint64_t> turns;
  for (std::uint64_t turn = 0; turn < 256; ++turn) {
    const std::uint64_t before = ParameterWindow(parameters, turn).hash();
    const torch::Tensor kept = number.clone();
    number.fill_(other);
    if (ParameterWindow(parameters, turn).hash() != before) turns.insert(turn);
    number.copy_(kept);
  }
  return turns;
}

TEST(ParameterWindow, LooksAtEveryNumberWithin256Turns) {
  const auto parameters = parameters_of({torch::rand({3, 5}), torch::rand({1 << 20}, torch::kBFloat16), torch::rand({}),
                                         torch::rand({700'001}, torch::kFloat64), torch::rand({5}, torch::kHalf)});
  std::int64_t numbers = 0;
  for (std::uint64_t turn = 0; turn < 256; ++turn)
    numbers += static_cast<std::int64_t>(ParameterWindow(parameters, turn).numbers().size());
  std::int64_t all = 0;
  for (const NamedParameter& one : parameters) all += one.tensor.numel();
  EXPECT_EQ(numbers, all);
  for (const NamedParameter& one : parameters) {
    for (const double where : {0.0, 0.5, 1.0}) {
      const auto i = static_cast<std::int64_t>(where * static_cast<double>(one.tensor.numel() - 1));
      EXPECT_EQ(seen_in(parameters, one.tensor.reshape({-1})[i], 7).size(), 1u) << one.name << " " << i;
    }
  }
}

TEST(ParameterWindow, NamesItsNumbers) {
  const auto parameters = parameters_of({torch::zeros({2, 3}), torch::zeros({}), torch::zeros({4})});
  const ParameterWindow window(parameters, 0);
  EXPECT_EQ(window.name(0), "p0[0]");
  EXPECT_EQ(window.name(5), "p0[5]");
  EXPECT_EQ(window.name(6), "p1");
  EXPECT_EQ(window.name(10), "p2[3]");
  EXPECT_EQ(window.not_finite(), "");
  parameters[2].tensor[1] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(window.not_finite(), "inf in p2[1]");
}

/// How many passes of a model of one layer pass before the change of one bit on rank 1 is noticed.
void expect_noticed(const std::function<void(torch::Tensor)>& change, int passes) {
  const auto errors = errors_on_ranks(2, [&](const ProcessGroup& group) {
    torch::nn::Sequential net(torch::nn::Linear(200, 100));
    fill(*net, 1);
    DistributedDataParallel ddp(net, group);
    if (group->getRank() == 1) change(net->parameters()[0].data());
    for (int pass = 0; pass < passes; ++pass) net->forward(torch::ones({1, 200})).sum().backward();
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(error.find("rank 1 holds "), 0) << error;
    EXPECT_NE(error.find(" in 0.weight[1234"), std::string::npos) << error;
    EXPECT_NE(error.find("must be the same on all ranks"), std::string::npos) << error;
  }
}

TEST(ParameterWindow, ShowsEvenTheLastBitOfANumberToDistributedDataParallel) {
  for (const int bit : {0, 5, 22, 30}) {
    SCOPED_TRACE(bit);
    const int windows = (200 * 100 + 100 + 4095) / 4096;
    expect_noticed(
        [&](torch::Tensor weight) {
          weight.data_ptr<float>()[12345 - 1] =
              std::bit_cast<float>(std::bit_cast<std::uint32_t>(weight.data_ptr<float>()[12345 - 1]) ^ 1u << bit);
        },
        windows);
  }
}

TEST(ParameterWindow, NumbersThatAreNotFiniteAreSaidOnceAndEndNothing) {
  ::testing::internal::CaptureStderr();
  on_ranks(2, [](const ProcessGroup& group) {
    torch::nn::Sequential net(torch::nn::Linear(4, 3));
    fill(*net, 1);
    DistributedDataParallel ddp(net, group);
    torch::optim::SGD optimiser(net->parameters(), 0.1);
    for (int pass = 0; pass < 4; ++pass) {
      optimiser.zero_grad();
      const double factor = pass == 1 && group->getRank() == 1 ? std::numeric_limits<double>::infinity() : 1;
      (net->forward(torch::ones({1, 4})).sum() * factor).backward();
      optimiser.step();
    }
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  const std::string line = "ripieno: warning: rank 0 holds ";
  const std::size_t at = said.find(line);
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find(line, at + 1), std::string::npos) << said;
  EXPECT_NE(said.find(" in 0.weight[0], in backward pass 3 of model 1: a loss or a gradient before was no finite"),
            std::string::npos)
      << said;
}

}  // namespace
}  // namespace ripieno::loop
