#include "ripieno/fused/run_layers.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <set>

#include "ripieno/fused/gradient_places.h"
#include "ripieno/model/classifier.h"
#include "ripieno/model/zoo.h"

namespace ripieno::fused {
namespace {

constexpr auto channels_last = torch::MemoryFormat::ChannelsLast;

torch::nn::Sequential chain(std::int64_t in, std::int64_t middle, std::int64_t padding) {
  torch::manual_seed(11);
  torch::nn::Sequential layers;
  layers->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(in, middle, 3).padding(padding)));
  layers->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(true)));
  layers->push_back(torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2).stride(2)));
  layers->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(middle, 5, 3).padding(1)));
  layers->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(true)));
  layers->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(5, 20, 3).padding(1).stride(2).bias(false)));
  layers->push_back(torch::nn::BatchNorm2d(20));
  layers->push_back(torch::nn::Flatten());
  for (auto& parameter : layers->parameters()) {
    if (parameter.dim() == 4) parameter.set_data(parameter.detach().contiguous(channels_last));
  }
  return layers;
}

std::vector<torch::Tensor> gradients(torch::nn::Sequential& layers, torch::Tensor x, bool fused) {
  layers->zero_grad();
  x.mutable_grad() = torch::Tensor();
  torch::Tensor y = fused ? run_layers(layers, x) : layers->forward(x);
  (y.to(torch::kFloat32) * torch::linspace(-1, 1, y.numel()).view_as(y)).sum().backward();
  std::vector<torch::Tensor> all{y.detach().to(torch::kFloat32), x.grad()};
  for (const auto& parameter : layers->parameters()) all.push_back(parameter.grad());
  return all;
}

void expect_close(const std::vector<torch::Tensor>& found, const std::vector<torch::Tensor>& expected,
                  double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double scale = expected[i].abs().max().item<double>();
    EXPECT_LE((found[i] - expected[i]).abs().max().item<double>(), tolerance * scale)
        << "tensor " << i << " of scale " << scale;
    EXPECT_GT(scale, 0) << "tensor " << i;
  }
}

TEST(Fused, EqualsTheLayersOneByOne) {
  for (const std::int64_t size : {2, 3, 5, 8, 11}) {
    for (const std::int64_t channels : {1, 3, 16}) {
      for (const std::int64_t padding : {0, 1}) {
        if (size < 4 && padding == 0) continue;  // no pixel would be left
        SCOPED_TRACE(testing::Message() << size << " pixels, " << channels << " channels, padding " << padding);
        auto layers = chain(channels, 19, padding);
        const auto x = torch::randn({3, channels, size, size}).contiguous(channels_last).requires_grad_();
        expect_close(gradients(layers, x, true), gradients(layers, x, false), 1e-4);
      }
    }
  }
}

TEST(Fused, UnderAutocastGradientsOfParametersAreFp32AndEqualAutocasts) {
  auto layers = chain(3, 32, 1);
  const auto x = torch::randn({8, 3, 8, 8}).contiguous(channels_last).requires_grad_();
  const auto run = [&](bool fused) {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    auto found = gradients(layers, x, fused);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    return found;
  };
  const auto found = run(true), autocast = run(false), exact = gradients(layers, x, false);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].scalar_type(), torch::kFloat32);
    const double scale = exact[i].norm().item<double>();
    EXPECT_LE((found[i] - exact[i]).norm().item<double>(),
              1.5 * (autocast[i] - exact[i]).norm().item<double>() + 1e-3 * scale)
        << i;
  }
}

TEST(Fused, AConvolutionByItselfAndPooled) {
  torch::manual_seed(12);
  torch::nn::Conv2d layer(torch::nn::Conv2dOptions(7, 21, 3).padding(1));
  layer->weight.set_data(layer->weight.detach().contiguous(channels_last));
  const auto x = torch::randn({3, 7, 9, 6}).contiguous(channels_last).requires_grad_();
  for (const bool pool : {false, true}) {
    const auto run = [&](bool fused) {
      layer->zero_grad();
      x.mutable_grad() = torch::Tensor();
      const torch::Tensor plain = fused ? torch::Tensor() : layer->forward(x);
      const torch::Tensor y = fused ? run_layers(layer, x, pool) : pool ? torch::max_pool2d(plain, 2) : plain;
      (y * torch::linspace(-1, 1, y.numel()).view_as(y)).sum().backward();
      return std::vector<torch::Tensor>{y.detach(), x.grad(), layer->weight.grad(), layer->bias.grad()};
    };
    expect_close(run(true), run(false), 1e-5);
  }
}

TEST(Fused, WhatDoesNotFitIsRefusedInTheLayersOwnWords) {
  const auto words = [](auto act) -> std::string {
    try {
      act();
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "nothing";
  };
  auto layers = chain(8, 16, 1);
  const torch::Tensor x = torch::rand({2, 16, 8, 8}).contiguous(channels_last);
  EXPECT_EQ(words([&] { run_layers(layers, x); }), words([&] { layers->forward(x); }));
  torch::nn::BatchNorm2d norm(8), whole(16);
  const torch::Tensor one = torch::rand({1, 16, 1, 1}).contiguous(channels_last);
  EXPECT_EQ(words([&] { run_layers(whole, one, {}); }), words([&] { whole->forward(one); }));
  EXPECT_EQ(words([&] { run_layers(norm, x, {}); }), words([&] { norm->forward(x); }));
}

TEST(Fused, BatchNormWithReluAndASummand) {
  torch::manual_seed(13);
  for (const std::int64_t channels : {16, 21}) {
    torch::nn::BatchNorm2d layer(channels), plain(channels);
    torch::nn::init::uniform_(layer->weight, 0.5, 2);
    torch::nn::init::normal_(layer->bias);
    {
      const torch::NoGradGuard no_grad;
      plain->weight.copy_(layer->weight);
      plain->bias.copy_(layer->bias);
    }
    const auto input = [&] { return torch::randn({5, channels, 6, 7}).contiguous(channels_last).requires_grad_(); };
    const auto x = input(), more = input(), direction = torch::randn_like(x);
    const auto run = [&](torch::nn::BatchNorm2d& norm, bool fused) {
      x.mutable_grad() = torch::Tensor();
      more.mutable_grad() = torch::Tensor();
      const torch::Tensor y = fused ? run_layers(norm, x, more) : torch::relu(norm->forward(x) + more);
      (y * direction).sum().backward();
      return std::vector<torch::Tensor>{
          y.detach(),        x.grad(),           more.grad(),       norm->weight.grad(),
          norm->bias.grad(), norm->running_mean, norm->running_var, norm->num_batches_tracked.to(torch::kFloat32)};
    };
    expect_close(run(layer, true), run(plain, false), 1e-5);
    layer->eval();
    plain->eval();
    EXPECT_TRUE(torch::allclose(run_layers(layer, x, more), torch::relu(plain->forward(x) + more), 1e-4, 1e-5));
  }
}

TEST(Fused, TheNumberOfThreadsChangesNothing) {
  torch::manual_seed(14);
  const auto x = torch::randn({9, 16, 65, 67}).contiguous(channels_last).requires_grad_();
  const int before = torch::get_num_threads();
  const auto run = [&](int threads) {
    torch::set_num_threads(threads);
    torch::nn::Sequential layers(torch::nn::BatchNorm2d(16), torch::nn::ReLU(torch::nn::ReLUOptions(true)),
                                 torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2).stride(2)));
    auto found = gradients(layers, x, true);
    found.push_back(layers->buffers()[0].clone());
    torch::set_num_threads(before);
    return found;
  };
  const auto alone = run(1), plain = [&] {
    torch::nn::Sequential layers(torch::nn::BatchNorm2d(16), torch::nn::ReLU(), torch::nn::MaxPool2d(2));
    auto found = gradients(layers, x, false);
    found.push_back(layers->buffers()[0].clone());
    return found;
  }();
  expect_close(alone, plain, 1e-4);
  for (const int threads : {2, 5}) {
    const auto together = run(threads);
    for (std::size_t i = 0; i < alone.size(); ++i)
      EXPECT_TRUE(torch::equal(together[i], alone[i])) << threads << " threads, tensor " << i;
  }
}

TEST(Fused, TiesAndNaNGoWhereTheLayersSendThem) {
  auto layers = chain(1, 19, 1);
  auto x = torch::zeros({1, 1, 8, 8});
  x.index_put_({0, 0, 0, 0}, NAN);
  x = x.contiguous(channels_last).requires_grad_();
  const auto found = gradients(layers, x, true), expected = gradients(layers, x, false);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(torch::equal(found[i].isnan(), expected[i].isnan())) << i;
}

TEST(Fused, LinearLayers) {
  torch::manual_seed(12);
  torch::nn::Sequential layers(torch::nn::Linear(33, 17), torch::nn::ReLU(torch::nn::ReLUOptions(true)),
                               torch::nn::Linear(17, 5));
  const auto x = torch::randn({7, 33}).requires_grad_();
  expect_close(gradients(layers, x, true), gradients(layers, x, false), 1e-6);
}

/// Lends memory, each place once.
struct Places : GradientPlaces {
  torch::Tensor take(const torch::Tensor& parameter) override {
    if (!lent.insert(parameter.data_ptr()).second) return {};
    memory.push_back(torch::full_like(parameter, NAN));
    return memory.back().detach();
  }
  void written(const torch::Tensor& parameter) override {
    ++told;
    EXPECT_EQ(lent.count(parameter.data_ptr()), 1u);
    for (const auto& each : memory) unwritten += each.sizes() == parameter.sizes() && each.isnan().any().item<bool>();
  }
  std::vector<torch::Tensor> parts(const torch::Tensor&) override { return {}; }
  void part_written(const torch::Tensor&, std::size_t) override { ADD_FAILURE() << "no parameter has parts"; }
  int told = 0, unwritten = 0;
  std::set<void*> lent;
  std::vector<torch::Tensor> memory;
};

/// Lends nothing, but says that matrices and filters come in three parts, and notes what it is told.
struct InParts : GradientPlaces {
  torch::Tensor take(const torch::Tensor&) override { return {}; }
  void written(const torch::Tensor& parameter) override { told.push_back({parameter.data_ptr(), 9}); }
  std::vector<torch::Tensor> parts(const torch::Tensor& parameter) override {
    if (parameter.dim() == 1) return {};
    const std::int64_t rows = parameter.size(0), a = rows / 4, b = rows / 2;
    const torch::Tensor whole = parameter.detach();
    return {whole.narrow(0, 0, a), whole.narrow(0, a, b - a), whole.narrow(0, b, rows - b)};
  }
  void part_written(const torch::Tensor& parameter, std::size_t part) override {
    told.push_back({parameter.data_ptr(), part});
  }
  std::vector<std::pair<void*, std::size_t>> told;
};

TEST(Fused, InPartsIsTheSame) {
  const auto last = [](std::int64_t channels, bool bias) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, 37, 3).padding(1).bias(bias));
  };
  for (const bool bf16 : {false, true}) {
    for (const std::int64_t channels : {8, 160}) {  // few, which LibTorch convolves, and many
      for (const bool bias : {false, true}) {
        SCOPED_TRACE(testing::Message() << (bf16 ? "bf16, " : "fp32, ") << channels << " channels"
                                        << (bias ? ", with a bias" : ""));
        torch::manual_seed(13);
        torch::nn::Sequential layers(
            last(channels, bias), torch::nn::ReLU(), torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2).stride(2)),
            torch::nn::Flatten(), torch::nn::Linear(37, 22), torch::nn::ReLU(), torch::nn::Linear(22, 10));
        layers[0]->as<torch::nn::Conv2d>()->weight.set_data(
            layers[0]->as<torch::nn::Conv2d>()->weight.detach().contiguous(channels_last));
        const auto x = torch::randn({6, channels, 2, 2}).contiguous(channels_last).requires_grad_();
        const auto compute = [&] {
          at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
          at::autocast::set_autocast_enabled(at::kCPU, bf16);
          const auto found = gradients(layers, x, true);
          at::autocast::set_autocast_enabled(at::kCPU, false);
          return found;
        };
        const auto whole = compute();
        InParts places;
        const LendGradientPlaces lend(places);
        expect_close(compute(), whole, bf16 ? 0.02 : 1e-5);
        std::vector<std::pair<void*, std::size_t>> expected;
        const auto parameters = layers->parameters();
        for (std::size_t i = parameters.size(); i-- > 0;) {  // the last rows first, the bias before them
          if (parameters[i].dim() == 1) {
            expected.push_back({parameters[i].data_ptr(), 9});
          } else {
            for (const std::size_t part : {2, 1, 0}) expected.push_back({parameters[i].data_ptr(), part});
          }
        }
        EXPECT_EQ(places.told, expected);
      }
    }
  }
}

struct InFp16 {
  InFp16() {
    at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  }
  ~InFp16() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
};

TEST(Fused, Fp16IsSummedUpInFp32) {
  for (const std::int64_t channels : {8, 160}) {  // few, which LibTorch convolves, and many
    torch::manual_seed(17);
    torch::nn::Conv2d layer(torch::nn::Conv2dOptions(channels, channels, 3).padding(1));
    layer->weight.set_data(layer->weight.detach().contiguous(channels_last));
    const auto x = torch::randn({3, channels, 6, 6}).contiguous(channels_last);
    const auto rounded = [](const torch::Tensor& t) { return t.to(torch::kHalf).to(torch::kFloat32); };
    const auto expected = at::conv2d(rounded(x), rounded(layer->weight), rounded(layer->bias), 1, 1).to(torch::kHalf);
    const InFp16 in_fp16;
    const auto found = run_layers(layer, x, false);
    ASSERT_EQ(found.scalar_type(), torch::kHalf);
    const double apart = (found.to(torch::kFloat32) - expected.to(torch::kFloat32)).abs().max().item<double>();
    EXPECT_LE(apart, channels == 8 ? 0 : 1e-3 * expected.abs().max().item<double>()) << channels << " channels";
  }
}

TEST(Fused, Fp16EqualsTheLayersOneByOne) {
  auto layers = chain(3, 16, 1);
  const auto x = torch::randn({2, 3, 8, 8}).contiguous(channels_last).requires_grad_();
  const InFp16 in_fp16;
  expect_close(gradients(layers, x, true), gradients(layers, x, false), 5e-3);
}

TEST(Fused, WritesGradientsToTheirPlaces) {
  auto layers = chain(3, 16, 1);
  const auto x = torch::randn({2, 3, 8, 8}).contiguous(channels_last);
  Places places;
  {
    const LendGradientPlaces lend(places);
    run_layers(layers, x).sum().backward();
  }
  EXPECT_EQ(places.memory.size(), 7u) << "three convolutions, two with a bias, and a batch normalisation";
  std::set<void*> memory;
  for (const auto& each : places.memory) memory.insert(each.data_ptr());
  std::size_t there = 0;
  for (const auto& parameter : layers->parameters()) {
    EXPECT_FALSE(parameter.grad().isnan().any().item<bool>());
    there += memory.count(parameter.grad().data_ptr());
  }
  EXPECT_EQ(there, 7u) << "autograd took them without a copy";
  EXPECT_EQ(places.told, 5) << "three convolutions, two with a bias";
  EXPECT_EQ(places.unwritten, 0);
}

/// Output and gradients of one batch; fp64 and the usual layout know no fused layers.
std::vector<torch::Tensor> output_and_gradients(const model::ModelInfo& info, std::uint64_t seed,
                                                torch::ScalarType type, torch::MemoryFormat format) {
  torch::manual_seed(seed);
  auto model = info.make();
  if (type != torch::kFloat32) model->to(type);
  for (auto& parameter : model->parameters()) {
    if (parameter.dim() == 4) parameter.set_data(parameter.detach().contiguous(format));
  }
  const auto x = torch::randn({2, info.channels, info.height, info.width}).to(type).contiguous(format);
  torch::manual_seed(seed + 1);
  const auto y = model->forward(x);
  y.log_softmax(1).select(1, 3).mean().backward();
  std::vector<torch::Tensor> found{y.detach().to(torch::kFloat64)};
  for (const auto& parameter : model->parameters()) {
    if (parameter.requires_grad()) found.push_back(parameter.grad().to(torch::kFloat64));
  }
  return found;
}

/// The largest error of the fused layers against fp64, over ten times that of the plain ones (and a little more).
double error_over_plain(const model::ModelInfo& info, std::uint64_t seed) {
  const auto exact = output_and_gradients(info, seed, torch::kFloat64, torch::MemoryFormat::Contiguous);
  const auto plain = output_and_gradients(info, seed, torch::kFloat32, torch::MemoryFormat::Contiguous);
  const auto fused = output_and_gradients(info, seed, torch::kFloat32, channels_last);
  double largest = 0, worst = 0;  // a bias before batch normalisation has a gradient of rounding alone
  for (std::size_t i = 1; i < exact.size(); ++i) largest = std::max(largest, exact[i].norm().item<double>());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double norm = exact[i].norm().item<double>(), scale = i == 0 ? norm : std::max(1e-4 * largest, norm);
    const auto error = [&](const std::vector<torch::Tensor>& found) {
      return (found[i] - exact[i]).norm().item<double>() / scale;
    };
    worst = std::max(worst, error(fused) / (10 * error(plain) + 1e-5));
  }
  return worst;
}

// Where rounding turns one ReLU or one choice of a pool, a deep network's gradient jumps by a percent, in PyTorch's own
// layers as well: in some batches by chance, the fewer images the more seldom. What is wrong is wrong in every batch.
TEST(Fused, EveryModelOfTheZooIsAsExactAsItsPlainLayers) {
  const model::Zoo known = model::zoo();
  for (const model::ModelInfo& info : known.all()) {
    if (info.resizes || info.layers > 50) continue;  // the same blocks, more or larger
    double best = 1e9;
    for (std::uint64_t seed = 1; seed <= 8 && best > 1; ++seed) best = std::min(best, error_over_plain(info, 2 * seed));
    EXPECT_LE(best, 1) << info.name;
  }
}

}  // namespace
}  // namespace ripieno::fused
