#include "ripieno/train/backward_watch.h"

#include <gtest/gtest.h>

#include "ripieno/train/gradient_loan.h"
#include "tests/train/watched_model.h"

namespace ripieno::train {
namespace {

using testing::copy_parameters;
using testing::floats_of;
using testing::OddNet;
using testing::WatchedModel;

TEST(BackwardWatch, TiedIsOneFrozenIsApartUnusedIsZero) {
  torch::manual_seed(3);
  auto module = std::make_shared<OddNet>();
  const auto x = torch::randn({7, 4});
  WatchedModel model(module, {.bucket_bytes = 1});
  std::vector<int> ready(model.flat.layout().buckets.size());
  model.watch.zero_gradients();
  model.watch.on_ready = [&](std::size_t bucket) { ++ready[bucket]; };
  module->forward(x).sum().backward();
  int unready = 0;
  for (const int times : ready) {
    EXPECT_LE(times, 1);
    unready += times == 0;
  }
  EXPECT_EQ(unready, 2) << "the unused layer's weight and bias";
  for (const auto& tensor : model.flat.layout().tensors) {
    double sum = 0;
    for (const float g : model.host.gradients().slice(tensor.range.begin, tensor.range.end).as<float>()) {
      sum += std::abs(g);
    }
    EXPECT_EQ(sum == 0, tensor.name.rfind("unused", 0) == 0) << tensor.name;
  }
  // Twice through the tied weight, one gradient: as autograd gives it to a model that is not flat.
  auto other = std::make_shared<OddNet>();
  copy_parameters(*other, *module);
  other->forward(x).sum().backward();
  EXPECT_TRUE(torch::allclose(other->first->weight.grad(), module->first->weight.grad()));
}

TEST(BackwardWatch, RenewedGradientsReplaceTheLastOnes) {
  torch::manual_seed(3);
  auto module = std::make_shared<OddNet>();
  WatchedModel model(module, {.bucket_bytes = 1});
  const auto x = torch::randn({7, 4}), y = torch::randn({7, 4});
  const auto pass = [&](bool renew, int parts) {  // over x, then over y: the sum of both
    renew ? model.watch.renew_gradients() : model.watch.zero_gradients();
    const GradientLoan loan(model.watch);
    for (int part = 0; part < parts; ++part) module->forward(part == 0 ? x : y).sum().backward();
    model.watch.collect_gradients();
    return floats_of(model.host.gradients());
  };
  for (const int parts : {1, 2}) {
    const auto expected = pass(false, parts);
    for (float& g : model.flat.gradients().as<float>()) g = NAN;  // unused ones must not stay either
    EXPECT_EQ(pass(true, parts), expected);
    for (auto& parameter : module->parameters()) {
      EXPECT_EQ(parameter.requires_grad(), parameter.grad().defined());
    }
  }
}

TEST(BackwardWatch, LendsEachPlaceOnceAPassAndOnlyToWholeParameters) {
  auto module = std::make_shared<torch::nn::LinearImpl>(3, 2);
  WatchedModel model(module);
  EXPECT_FALSE(model.watch.take(module->weight).defined()) << "no pass is under way";
  model.watch.renew_gradients();
  EXPECT_FALSE(model.watch.take(torch::ones({2, 3})).defined()) << "not a parameter";
  EXPECT_FALSE(model.watch.take(module->weight.detach().narrow(0, 0, 1)).defined());
  EXPECT_EQ(model.watch.take(module->weight).data_ptr(), model.flat.gradients().data);
  EXPECT_FALSE(model.watch.take(module->weight).defined());
  EXPECT_TRUE(model.watch.take(module->bias).defined());
  model.watch.renew_gradients();
  EXPECT_TRUE(model.watch.take(module->weight).defined());
}

TEST(BackwardWatch, CollectsGradientsThatTheUserDetached) {
  auto module = std::make_shared<torch::nn::LinearImpl>(3, 2);
  WatchedModel model(module);
  torch::optim::SGD optimiser(module->parameters(), 0.1);
  model.watch.zero_gradients();
  optimiser.zero_grad();  // sets them to none: the next backward makes new ones
  module->forward(torch::ones({1, 3})).sum().backward();
  model.watch.collect_gradients();
  for (const float g : model.host.gradients().as<float>()) EXPECT_EQ(g, 1.0f);
  EXPECT_EQ(module->weight.grad().data_ptr(), model.flat.gradients().data);
}

TEST(BackwardWatch, ALayerWithoutGradientsIsNotWaitedFor) {
  auto module = std::make_shared<torch::nn::SequentialImpl>(torch::nn::Linear(3, 3), torch::nn::Linear(3, 2));
  WatchedModel model(module);  // one bucket
  int ready = 0, released = 0;
  model.watch.on_ready = [&](std::size_t) { ++ready; };
  model.watch.on_released = [&](std::size_t) { ++released; };
  model.flat.train_first_layer(false);
  model.watch.renew_gradients();
  module->forward(torch::ones({1, 3})).sum().backward();
  EXPECT_EQ(ready, 1);
  EXPECT_EQ(released, 1);
  model.watch.collect_gradients();
  const auto all = floats_of(model.host.gradients());
  EXPECT_EQ(std::vector<float>(all.begin(), all.begin() + 12), std::vector<float>(12));
}

TEST(HostCopy, OnTheCpuIsTheModelsOwnMemory) {
  WatchedModel model(std::make_shared<torch::nn::LinearImpl>(3, 2));
  EXPECT_EQ(model.host.parameters().data, model.flat.parameters().data);
  EXPECT_EQ(model.host.gradients().data, model.flat.gradients().data);
  EXPECT_EQ(model.host.buffers().count, 0u);
}

}  // namespace
}  // namespace ripieno::train
