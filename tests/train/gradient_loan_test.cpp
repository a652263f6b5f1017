// Fused operations that write gradients to where they are wanted, and how early these count.
#include "ripieno/train/gradient_loan.h"

#include <gtest/gtest.h>

#ifdef RIPIENO_KERNELS
#include <ATen/autocast_mode.h>

#include <optional>

#include "ripieno/fused/run_layers.h"
#include "ripieno/numeric/elementwise.h"
#include "tests/train/watched_model.h"

namespace ripieno::train {
namespace {

using testing::copy_parameters;
using testing::floats_of;
using testing::WatchedModel;

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
    torch::Tensor y = fused::run_layers(layers, x.contiguous(torch::MemoryFormat::ChannelsLast)).flatten(1);
    torch::nn::Sequential last(linear);
    for (int i = 0; i < uses; ++i) y = fused::run_layers(last, y);
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

TEST(GradientLoan, AGradientCountsFromWhenItIsWrittenWhereItsParameterIsUsedOnce) {
  for (const auto& [uses, bf16] : {std::pair(1, true), {2, true}, {1, false}, {2, false}}) {
    SCOPED_TRACE(text(uses, bf16 ? " uses in bf16" : " uses in fp32"));
    torch::manual_seed(4);
    const auto module = std::make_shared<Chain>(uses);
    WatchedModel model(module, {.bucket_bytes = 1, .channels_last = true});
    BackwardWatch& watch = model.watch;
    const auto x = torch::randn({5, 3, 4, 4});
    const auto loss_of = [&, bf16 = bf16] {
      const InBf16 autocast(bf16);
      return module->forward(x).to(torch::kFloat32).sum();
    };
    watch.zero_gradients();
    loss_of().backward();
    const auto all = model.flat.gradients().as<float>();
    const std::vector<float> expected(all.begin(), all.end());

    for (float& g : all) g = NAN;
    std::vector<bool> before_autograd(
        model.flat.layout().buckets.size());  // each of one tensor: the last parameters first
    const torch::Tensor loss = loss_of();
    watch.renew_gradients(loss);
    std::vector<int> released(model.flat.layout().buckets.size());
    watch.on_released = [&](std::size_t bucket) {  // an optimiser goes to work at once
      const Range range = model.flat.layout().buckets[bucket];
      for (float& w : model.flat.parameters().slice(range.begin, range.end).as<float>()) w = NAN;
      ++released[bucket];
    };
    watch.on_ready = [&](std::size_t bucket) {  // so does an exchange
      const Range range = model.flat.layout().buckets[bucket];
      numeric::scale(model.flat.gradients().slice(range.begin, range.end), 10);
      EXPECT_EQ(released[bucket], 0);
      const auto parameters = module->parameters();
      before_autograd[bucket] = !parameters[parameters.size() - 1 - bucket].grad().defined();
    };
    {
      const GradientLoan loan(watch);
      loss.backward();
    }
    watch.on_ready = watch.on_released = nullptr;
    watch.collect_gradients();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(all[i], 10 * expected[i], 1e-4 * std::abs(expected[i]) + 1e-5) << i;
    }

    EXPECT_EQ(before_autograd, std::vector<bool>({uses == 1, uses == 1, true, true, true, true}));
    EXPECT_EQ(released, std::vector<int>(6, 1));
  }
}

/// Of a pass over five images: all gradients; buckets in the order in which they were announced, and released.
struct Announced {
  std::vector<float> gradients;
  std::vector<std::size_t> ready, released;
};

Announced announced(WatchedModel& model, Chain& chain, bool lend) {
  Announced found;
  torch::manual_seed(5);
  const auto x = torch::randn({5, 3, 4, 4});
  BackwardWatch& watch = model.watch;
  std::optional<GradientLoan> loan;
  if (lend) loan.emplace(watch);
  const torch::Tensor loss = chain.forward(x).square().sum();
  watch.renew_gradients(loss);
  watch.on_ready = [&](std::size_t bucket) { found.ready.push_back(bucket); };
  watch.on_released = [&](std::size_t bucket) { found.released.push_back(bucket); };
  loss.backward();
  watch.on_ready = watch.on_released = nullptr;
  watch.collect_gradients();
  found.gradients = floats_of(model.flat.gradients());
  return found;
}

TEST(GradientLoan, TheLastLargeTensorLiesInTwoBuckets) {
  torch::manual_seed(6);
  const auto module = std::make_shared<Chain>(1), same = std::make_shared<Chain>(1);
  copy_parameters(*same, *module);
  const std::size_t linear = 64 * 64, rest = 8 * 27 + 8 + 4 * 72 + 4;
  WatchedModel whole(same, {.bucket_bytes = 5000, .channels_last = true});
  WatchedModel divided(module, {.bucket_bytes = 5000, .channels_last = true, .divide = true});
  const std::size_t middle = rest + linear / 2, end = rest + linear + 64;
  EXPECT_EQ(whole.flat.layout().buckets, (std::vector<Range>{{rest, end}, {0, rest}}));
  EXPECT_EQ(divided.flat.layout().buckets, (std::vector<Range>{{middle, end}, {rest, middle}, {0, rest}}));

  const Announced expected = announced(whole, *same, true);
  for (const bool lend : {true, false}) {  // as an operation that knows of parts, and as one that does not
    const Announced found = announced(divided, *module, lend);
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

}  // namespace
}  // namespace ripieno::train

#else

TEST(GradientLoan, NeedsFusedOperations) {
  GTEST_SKIP() << "built with RIPIENO_KERNELS=OFF: there are none to lend to";
}

#endif
