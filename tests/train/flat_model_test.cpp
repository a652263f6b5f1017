#include "ripieno/train/flat_model.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include "ripieno/numeric/elementwise.h"
#include "ripieno/model/classifier.h"
#include "ripieno/fused/run_layers.h"
#include "ripieno/model/zoo.h"

namespace ripieno {
namespace {

/// Weights that are tied, frozen and unused.
struct Odd : torch::nn::Module {
  Odd() {
    first = register_module("first", torch::nn::Linear(4, 4));
    tied = register_parameter("tied", first->weight);
    frozen = register_module("frozen", torch::nn::Linear(4, 4));
    for (auto& p : frozen->parameters()) p.requires_grad_(false);
    unused = register_module("unused", torch::nn::Linear(4, 2));
    last = register_module("last", torch::nn::Linear(4, 3));
  }
  torch::Tensor forward(torch::Tensor x) {
    return last(frozen(torch::nn::functional::linear(torch::relu(first(x)), tied)));
  }
  torch::Tensor tied;
  torch::nn::Linear first{nullptr}, frozen{nullptr}, unused{nullptr}, last{nullptr};
};

TEST(FlatModel, TiedIsOneFrozenIsApartUnusedIsZero) {
  torch::manual_seed(3);
  auto module = std::make_shared<Odd>();
  const auto x = torch::randn({7, 4});
  const auto before = module->forward(x).detach().clone();
  FlatModel flat(module, {.bucket_bytes = 1});
  EXPECT_TRUE(torch::equal(before, module->forward(x))) << "flattening changed what the model computes";
  EXPECT_EQ(flat.layout().parameters, 16u + 4 + 8 + 2 + 12 + 3);  // first, unused, last
  EXPECT_EQ(flat.frozen().count, 20u);

  std::vector<int> ready(flat.layout().buckets.size());
  flat.zero_gradients();
  flat.on_ready = [&](std::size_t bucket) { ++ready[bucket]; };
  module->forward(x).sum().backward();
  int unready = 0;
  for (const int times : ready) {
    EXPECT_LE(times, 1);
    unready += times == 0;
  }
  EXPECT_EQ(unready, 2) << "the unused layer's weight and bias";
  for (const auto& tensor : flat.layout().tensors) {
    double sum = 0;
    for (const float g : flat.gradients().slice(tensor.range.begin, tensor.range.end).as<float>()) sum += std::abs(g);
    EXPECT_EQ(sum == 0, tensor.name.rfind("unused", 0) == 0) << tensor.name;
  }
  // Twice through the tied weight, one gradient: as autograd gives it to a model that is not flat.
  auto other = std::make_shared<Odd>();
  for (const auto& item : other->named_parameters()) {
    torch::NoGradGuard no_grad;
    item.value().copy_(module->named_parameters()[item.key()]);
  }
  other->forward(x).sum().backward();
  EXPECT_TRUE(torch::allclose(other->first->weight.grad(), module->first->weight.grad()));
}

/// Two convolutions, and one linear layer that is used `uses` times.
struct Chain : torch::nn::Module {
  explicit Chain(int uses) : uses(uses) {
    register_module("layers", layers);
    register_module("linear", linear);
    for (auto& p : layers->parameters()) {
      if (p.dim() == 4) p.set_data(p.contiguous(torch::MemoryFormat::ChannelsLast));
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    torch::Tensor y = run_layers(layers, x.contiguous(torch::MemoryFormat::ChannelsLast)).flatten(1);
    torch::nn::Sequential last(linear);
    for (int i = 0; i < uses; ++i) y = run_layers(last, y);
    return y;
  }
  const int uses;
  torch::nn::Sequential layers{torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)), torch::nn::ReLU(),
                               torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 4, 3).padding(1)), torch::nn::ReLU()};
  torch::nn::Linear linear{64, 64};
};

class InBf16 {
 public:
  explicit InBf16(bool on) {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, on);
  }
  ~InBf16() { at::autocast::set_autocast_enabled(at::kCPU, false); }
};

TEST(FlatModel, AGradientCountsFromWhenItIsWrittenWhereItsParameterIsUsedOnce) {
  for (const auto& [uses, bf16] : {std::pair(1, true), {2, true}, {1, false}, {2, false}}) {
    SCOPED_TRACE(text(uses, bf16 ? " uses in bf16" : " uses in fp32"));
    torch::manual_seed(4);
    const auto module = std::make_shared<Chain>(uses);
    FlatModel flat(module, {.bucket_bytes = 1, .channels_last = true});
    const auto x = torch::randn({5, 3, 4, 4});
    const auto loss_of = [&, bf16 = bf16] {
      const InBf16 autocast(bf16);
      return module->forward(x).to(torch::kFloat32).sum();
    };
    flat.zero_gradients();
    loss_of().backward();
    const auto all = flat.gradients().as<float>();
    const std::vector<float> expected(all.begin(), all.end());

    for (float& g : all) g = NAN;
    std::vector<bool> before_autograd(flat.layout().buckets.size());  // each of one tensor: the last parameters first
    const torch::Tensor loss = loss_of();
    flat.renew_gradients(loss);
    std::vector<int> released(flat.layout().buckets.size());
    flat.on_released = [&](std::size_t bucket) {  // an optimiser goes to work at once
      const Range range = flat.layout().buckets[bucket];
      for (float& w : flat.parameters().slice(range.begin, range.end).as<float>()) w = NAN;
      ++released[bucket];
    };
    flat.on_ready = [&](std::size_t bucket) {  // so does an exchange
      const Range range = flat.layout().buckets[bucket];
      scale(flat.gradients().slice(range.begin, range.end), 10);
      EXPECT_EQ(released[bucket], 0);
      const auto parameters = module->parameters();
      before_autograd[bucket] = !parameters[parameters.size() - 1 - bucket].grad().defined();
    };
    {
      const LendGradientPlaces lend(flat);
      loss.backward();
    }
    flat.on_ready = flat.on_released = nullptr;
    flat.collect_gradients();
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(all[i], 10 * expected[i], 1e-4 * std::abs(expected[i]) + 1e-5) << i;

    EXPECT_EQ(before_autograd, std::vector<bool>({uses == 1, uses == 1, true, true, true, true}));
    EXPECT_EQ(released, std::vector<int>(6, 1));
  }
}

/// Of a pass over five images: all gradients; buckets in the order in which they were announced, and released.
struct Announced {
  std::vector<float> gradients;
  std::vector<std::size_t> ready, released;
};

Announced announced(FlatModel& flat, Chain& chain, bool lend) {
  Announced found;
  torch::manual_seed(5);
  const auto x = torch::randn({5, 3, 4, 4});
  std::optional<LendGradientPlaces> lent;
  if (lend) lent.emplace(flat);
  const torch::Tensor loss = chain.forward(x).square().sum();
  flat.renew_gradients(loss);
  flat.on_ready = [&](std::size_t bucket) { found.ready.push_back(bucket); };
  flat.on_released = [&](std::size_t bucket) { found.released.push_back(bucket); };
  loss.backward();
  flat.on_ready = flat.on_released = nullptr;
  flat.collect_gradients();
  const auto all = flat.gradients().as<float>();
  found.gradients.assign(all.begin(), all.end());
  return found;
}

TEST(FlatModel, TheLastLargeTensorLiesInTwoBuckets) {
  torch::manual_seed(6);
  const auto module = std::make_shared<Chain>(1), same = std::make_shared<Chain>(1);
  for (const auto& item : same->named_parameters()) {
    const torch::NoGradGuard no_grad;
    item.value().copy_(module->named_parameters()[item.key()]);
  }
  const std::size_t linear = 64 * 64, rest = 8 * 27 + 8 + 4 * 72 + 4;
  FlatModel whole(same, {.bucket_bytes = 5000, .channels_last = true});
  FlatModel flat(module, {.bucket_bytes = 5000, .channels_last = true, .divide = true});
  const std::size_t middle = rest + linear / 2, end = rest + linear + 64;
  EXPECT_EQ(whole.layout().buckets, (std::vector<Range>{{rest, end}, {0, rest}}));
  EXPECT_EQ(flat.layout().buckets, (std::vector<Range>{{middle, end}, {rest, middle}, {0, rest}}));
  const auto parts = flat.parts(module->linear->weight);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_TRUE(torch::equal(torch::cat(parts), module->linear->weight));
  EXPECT_EQ(parts[1].data_ptr(), static_cast<float*>(flat.parameters().data) + middle) << "views of what is trained";
  EXPECT_TRUE(flat.parts(module->linear->bias).empty());
  EXPECT_TRUE(flat.parts(same->linear->weight).empty());

  const Announced expected = announced(whole, *same, true);
  for (const bool lend : {true, false}) {  // as an operation that knows of parts, and as one that does not
    const Announced found = announced(flat, *module, lend);
    for (std::size_t i = 0; i < found.gradients.size(); ++i) {
      ASSERT_NEAR(found.gradients[i], expected.gradients[i], 1e-4 * std::abs(expected.gradients[i]) + 1e-4) << i;
    }
    const std::vector<std::size_t> by_autograd{1, 0, 2};  // the weight before the bias, which lies in bucket 0
    EXPECT_EQ(found.ready, lend ? std::vector<std::size_t>({0, 1, 2}) : by_autograd);
    EXPECT_EQ(found.released, by_autograd);
  }

  FlatModel coarse(std::make_shared<Chain>(1), {.bucket_bytes = linear * 4, .divide = true});
  EXPECT_EQ(coarse.layout().buckets, (std::vector<Range>{{rest, end}, {0, rest}})) << "parts would be too small";
}

TEST(FlatModel, RenewedGradientsReplaceTheLastOnes) {
  torch::manual_seed(3);
  auto module = std::make_shared<Odd>();
  FlatModel flat(module, {.bucket_bytes = 1});
  const auto x = torch::randn({7, 4}), y = torch::randn({7, 4});
  const auto pass = [&](bool renew, int parts) {  // over x, then over y: the sum of both
    renew ? flat.renew_gradients() : flat.zero_gradients();
    const LendGradientPlaces lend(flat);
    for (int part = 0; part < parts; ++part) module->forward(part == 0 ? x : y).sum().backward();
    flat.collect_gradients();
    const auto all = flat.gradients().as<float>();
    return std::vector<float>(all.begin(), all.end());
  };
  for (const int parts : {1, 2}) {
    const auto expected = pass(false, parts);
    for (float& g : flat.gradients().as<float>()) g = NAN;  // unused ones must not stay either
    EXPECT_EQ(pass(true, parts), expected);
    for (auto& parameter : module->parameters()) {
      EXPECT_EQ(parameter.requires_grad(), parameter.grad().defined());
    }
  }
}

TEST(FlatModel, LendsEachPlaceOnceAPassAndOnlyToWholeParameters) {
  auto module = std::make_shared<torch::nn::LinearImpl>(3, 2);
  FlatModel flat(module, {});
  EXPECT_FALSE(flat.take(module->weight).defined()) << "no pass is under way";
  flat.renew_gradients();
  EXPECT_FALSE(flat.take(torch::ones({2, 3})).defined()) << "not a parameter";
  EXPECT_FALSE(flat.take(module->weight.detach().narrow(0, 0, 1)).defined());
  EXPECT_EQ(flat.take(module->weight).data_ptr(), flat.gradients().data);
  EXPECT_FALSE(flat.take(module->weight).defined());
  EXPECT_TRUE(flat.take(module->bias).defined());
  flat.renew_gradients();
  EXPECT_TRUE(flat.take(module->weight).defined());
}

TEST(FlatModel, BucketsPartitionTheParametersFromTheEnd) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1} << 20, std::size_t{25} << 20, std::size_t{1} << 40}) {
    FlatModel flat(zoo().find("mnist-cnn").make(), {.bucket_bytes = bytes});
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

TEST(FlatModel, ChannelsLastComputesTheSame) {
  torch::manual_seed(5);
  auto plain = zoo().find("vgg11").make(), last = zoo().find("vgg11").make();
  for (const auto& item : last->named_parameters()) {
    torch::NoGradGuard no_grad;
    item.value().copy_(plain->named_parameters()[item.key()]);
  }
  FlatModel a(plain, {}), b(last, {.channels_last = true});
  const auto x = torch::randn({4, 3, 32, 32});
  const auto y = plain->forward(x), z = last->forward(x.contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(torch::allclose(y, z, 1e-3, 1e-4)) << (y - z).abs().max();
  a.zero_gradients();
  b.zero_gradients();
  y.sum().backward();
  z.sum().backward();
  for (const auto& item : last->named_parameters()) {
    const auto expected = plain->named_parameters()[item.key()].grad();
    EXPECT_TRUE(torch::allclose(item.value().grad(), expected, 1e-2, 1e-3 * expected.abs().max().item<double>())) << item.key();
    EXPECT_TRUE(item.value().dim() != 4 || item.value().is_contiguous(torch::MemoryFormat::ChannelsLast)) << item.key();
  }
}

TEST(FlatModel, CollectsGradientsThatTheUserDetached) {
  auto module = std::make_shared<torch::nn::LinearImpl>(3, 2);
  FlatModel flat(module, {});
  torch::optim::SGD optimiser(module->parameters(), 0.1);
  flat.zero_gradients();
  optimiser.zero_grad();  // sets them to none: the next backward makes new ones
  module->forward(torch::ones({1, 3})).sum().backward();
  flat.collect_gradients();
  for (const float g : flat.gradients().as<float>()) EXPECT_EQ(g, 1.0f);
  EXPECT_EQ(module->weight.grad().data_ptr(), flat.gradients().data);
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
}  // namespace ripieno
