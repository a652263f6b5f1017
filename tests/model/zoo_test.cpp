#include "ripieno/model/zoo.h"

#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "ripieno/core/error.h"
#include "ripieno/model/families.h"
#include "tests/model/state_dicts.h"

namespace ripieno::model {
namespace {

torch::Tensor images(const ModelInfo& model, std::int64_t n) {
  torch::manual_seed(11);
  return torch::randn({n, model.channels, model.height, model.width});
}

std::shared_ptr<Classifier> make(const ModelInfo& model, std::uint64_t seed) {
  torch::manual_seed(seed);
  return model.make();
}

/// Parameters, then buffers.
std::vector<torch::Tensor> state(const Classifier& model) {
  std::vector<torch::Tensor> all = model.parameters();
  for (const torch::Tensor& buffer : model.buffers()) all.push_back(buffer);
  return all;
}

/// Tests over every model of the zoo, by its name.
class ZooModel : public testing::TestWithParam<std::string> {
 protected:
  /// Whether it has the layers of a smaller model, only more of them, and scripts/test full is not what runs.
  bool is_left_to_full() const {
    const bool larger = info_.name == "vgg16" || info_.name == "vgg19" || info_.name == "resnet152";
    return larger && !std::getenv("RIPIENO_FULL");
  }

  const Zoo zoo_ = zoo();
  const ModelInfo& info_ = zoo_.find(GetParam());
};

std::int64_t trained_parameters(const Classifier& model) {
  std::int64_t parameters = 0;
  for (const torch::Tensor& p : model.parameters()) {
    if (p.requires_grad()) parameters += p.numel();
  }
  return parameters;
}

std::int64_t numbers(const Classifier& model) {
  std::int64_t all = 0;
  for (const torch::Tensor& p : model.parameters()) all += p.numel();
  for (const torch::Tensor& b : model.buffers()) all += b.is_floating_point() ? b.numel() : 0;
  return all;
}

void expect_torchvisions_state_dict(const Classifier& model, const std::string& name) {
  const auto layers = std::find_if(expected_layers.begin(), expected_layers.end(),
                                   [&](const auto& entry) { return entry.first == name; });
  ASSERT_NE(layers, expected_layers.end());
  const StateDict expected = read_state_dict(layers->second);
  const auto shapes = [](const auto& tensors) {
    NamedShapes all;
    for (const auto& item : tensors) all.emplace_back(item.key(), item.value().sizes().vec());
    return all;
  };
  EXPECT_EQ(shapes(model.named_parameters()), expected.parameters);
  EXPECT_EQ(shapes(model.named_buffers()), expected.buffers);
}

/// Of a convolution or a product of matrices, each number of whose result is a sum of so many products.
struct Inner : at::ObserverContext {
  std::int64_t size = 0;
};

/// What convolutions and linear layers multiply, as the operators are called.
std::int64_t multiply_adds_of(Classifier& model, const torch::Tensor& x) {
  static thread_local std::int64_t counted;
  counted = 0;
  const auto begin = [](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
    auto inner = std::make_unique<Inner>();
    const std::string_view name = f.name();
    if (name == "aten::convolution") {
      const torch::Tensor weight = f.inputs()[1].toTensor();
      inner->size = weight.numel() / weight.size(0);
    }
    if (name == "aten::addmm") inner->size = f.inputs()[1].toTensor().size(1);
    if (name == "aten::mm") inner->size = f.inputs()[0].toTensor().size(1);
    return inner;
  };
  const auto end = [](const at::RecordFunction& f, at::ObserverContext* context) {
    const std::int64_t size = static_cast<const Inner*>(context)->size;
    if (size > 0) counted += size * f.outputs()[0].toTensor().numel();
  };
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(begin, end).needsInputs(true).needsOutputs(true));
  {
    torch::NoGradGuard no_grad;
    model.eval();
    model.forward(x);
  }
  at::removeCallback(handle);
  return counted;
}

TEST_P(ZooModel, HasTheSizesItStates) {
  const auto model = make(info_, 1);
  EXPECT_EQ(trained_parameters(*model), info_.parameters);
  EXPECT_EQ(numbers(*model), info_.parameters + info_.untrained);
  EXPECT_EQ(multiply_adds_of(*model, images(info_, 1)), info_.multiply_adds);
}

TEST_P(ZooModel, HasTorchvisionsStateDict) { expect_torchvisions_state_dict(*make(info_, 1), info_.name); }

TEST_P(ZooModel, GivesLogitsForEveryBatchSize) {
  const auto model = make(info_, 1);
  model->eval();
  torch::NoGradGuard no_grad;
  for (std::int64_t n : {0, 1, 5}) {
    const torch::Tensor logits = model->forward(images(info_, n));
    EXPECT_EQ(logits.sizes().vec(), (std::vector<std::int64_t>{n, info_.classes}));
    EXPECT_EQ(logits.scalar_type(), torch::kFloat);
    EXPECT_TRUE(logits.isfinite().all().item<bool>());
  }
}

TEST_P(ZooModel, StartsFromItsSeedAlone) {
  const auto first = make(info_, 5), again = make(info_, 5), other = make(info_, 6);
  const auto a = state(*first), b = state(*again);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i], b[i])) << i;
  EXPECT_FALSE(torch::equal(a[0], other->parameters()[0]));
}

TEST_P(ZooModel, GivesEveryParameterAGradientInFp64) {
  if (is_left_to_full()) GTEST_SKIP();
  const auto model = make(info_, 1);
  model->to(torch::kFloat64);
  const torch::Tensor logits = model->forward(images(info_, 4).to(torch::kFloat64));
  EXPECT_EQ(logits.scalar_type(), torch::kFloat64);
  torch::nn::functional::cross_entropy(logits, torch::arange(4)).backward();
  for (const auto& item : model->named_parameters()) {
    if (!item.value().requires_grad()) continue;  // frozen
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_EQ(item.value().grad().scalar_type(), torch::kFloat64);
    if (item.key().ends_with(".bias")) continue;  // a batch normalisation takes away that of the layer before it
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
  }
}

TEST_P(ZooModel, ComputesTheSameInChannelsLast) {
  if (is_left_to_full()) GTEST_SKIP();
  const auto run = [&](torch::MemoryFormat format) {
    const auto model = make(info_, 1);
    model->to(torch::kFloat64);
    for (torch::Tensor& p : model->parameters()) {
      if (p.dim() == 4) p.set_data(p.contiguous(format));
    }
    const torch::Tensor x = images(info_, 3).to(torch::kFloat64).contiguous(format);
    EXPECT_TRUE(x.is_contiguous(format));
    torch::manual_seed(3);  // dropout takes the same elements
    const torch::Tensor logits = model->forward(x);
    logits.square().sum().backward();
    for (const torch::Tensor& p : model->parameters()) {
      if (p.requires_grad()) return std::pair{logits.detach(), p.grad().contiguous()};
    }
    throw std::logic_error("nothing is trained");
  };
  const auto [logits, gradient] = run(torch::MemoryFormat::Contiguous);
  const auto [logits_last, gradient_last] = run(torch::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(torch::allclose(logits, logits_last, 1e-9, 1e-11));
  EXPECT_TRUE(torch::allclose(gradient, gradient_last, 1e-7, 1e-7 * gradient.abs().max().item<double>()));
}

/// Turns bf16 autocast on the CPU on, and on leaving as it was.
struct Autocast {
  bool was = at::autocast::is_autocast_enabled(at::kCPU);
  at::ScalarType type = at::autocast::get_autocast_dtype(at::kCPU);
  Autocast() {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  }
  ~Autocast() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, was);
    at::autocast::set_autocast_dtype(at::kCPU, type);
  }
};

TEST_P(ZooModel, TrainsUnderAutocast) {
  if (is_left_to_full()) GTEST_SKIP();
  const auto model = make(info_, 1);
  model->eval();  // so that dropout does not part the two
  const torch::Tensor x = images(info_, 4);
  const torch::Tensor exact = model->forward(x).detach();
  torch::Tensor logits;
  {
    Autocast autocast;
    logits = model->forward(x);
  }
  EXPECT_EQ(logits.scalar_type(), torch::kBFloat16);
  const double error = (logits.to(torch::kFloat) - exact).norm().item<double>() / exact.norm().item<double>();
  EXPECT_LT(error, 0.05);
  logits.to(torch::kFloat).square().sum().backward();
  for (const auto& item : model->named_parameters()) {
    if (!item.value().requires_grad()) continue;
    EXPECT_EQ(item.value().grad().scalar_type(), torch::kFloat) << item.key();
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
  }
}

INSTANTIATE_TEST_SUITE_P(All, ZooModel,
                         testing::Values("mnist-cnn", "mnist-3conv", "vgg11", "vgg11-bn", "vgg16", "vgg19", "resnet18",
                                         "resnet50", "resnet152", "alexnet", "airbench"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) {
                             if (c == '-') c = '_';
                           }
                           return name;
                         });

/// The networks in the form published for ImageNet. Sizes: Table 3.1 of the report on parameter servers and rings that
/// this project began with: MiB of fp32 numbers, 10^9 multiply-adds.
struct PublishedSize {
  std::string name;
  double mib, gflops;
  int layers;
};
void PrintTo(const PublishedSize& size, std::ostream* out) { *out << size.name; }

class PublishedModel : public testing::TestWithParam<PublishedSize> {};

TEST_P(PublishedModel, HasThePublishedSizesAndTakesImagesOfAnySize) {
  const Zoo models = zoo();
  const ModelInfo& info = models.find(GetParam().name);
  const auto model = make(info, 1);
  expect_torchvisions_state_dict(*model, info.name);
  EXPECT_EQ(trained_parameters(*model), info.parameters);
  EXPECT_EQ(numbers(*model), info.parameters + info.untrained);
  EXPECT_EQ(std::round(static_cast<double>(numbers(*model)) * 4 / (1 << 20)), GetParam().mib);
  EXPECT_EQ(std::round(static_cast<double>(info.multiply_adds) * 1e-8) / 10, GetParam().gflops);
  EXPECT_EQ(info.layers, GetParam().layers);
  const torch::Tensor small = torch::randn({1, 3, 32, 32});
  EXPECT_EQ(multiply_adds_of(*model, small), info.multiply_adds);
  torch::NoGradGuard no_grad;
  const torch::Tensor logits = model->forward(small);
  const torch::Tensor resized = torch::upsample_bilinear2d(small, {224, 224}, false);
  EXPECT_EQ(logits.sizes().vec(), (std::vector<std::int64_t>{1, 1000}));
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
  EXPECT_TRUE(torch::equal(logits, model->forward(resized)));
  EXPECT_EQ(model->forward(torch::empty({0, 3, 32, 32})).size(0), 0);
}

INSTANTIATE_TEST_SUITE_P(Table31, PublishedModel,
                         testing::Values(PublishedSize{"alexnet-imagenet", 233, 0.7, 8},
                                         PublishedSize{"vgg16-imagenet", 528, 15.5, 16},
                                         PublishedSize{"vgg19-imagenet", 548, 19.6, 19},
                                         PublishedSize{"resnet50-imagenet", 98, 3.9, 50},
                                         PublishedSize{"resnet152-imagenet", 230, 11.3, 152}),
                         [](const auto& info) { return info.param.name.substr(0, info.param.name.find('-')); });

/// Standard deviation of a weight, and how far that of n samples may lie from it (five of its own deviations).
void expect_normal(const torch::Tensor& weight, double deviation, const std::string& name) {
  const double n = static_cast<double>(weight.numel());
  EXPECT_NEAR(weight.std().item<double>(), deviation, 5 * deviation / std::sqrt(2 * n)) << name;
  EXPECT_NEAR(weight.mean().item<double>(), 0, 5 * deviation / std::sqrt(n)) << name;
}

TEST(Zoo, VggAndResNetStartAsTorchvisions) {
  const Zoo models = zoo();
  for (const char* name : {"vgg11", "vgg11-bn", "resnet18", "resnet50"}) {
    for (const auto& item : make(models.find(name), 1)->named_parameters()) {
      const torch::Tensor& p = item.value();
      const std::string where = std::string(name) + " " + item.key();
      if (p.dim() == 4) {
        const std::int64_t fan_out = p.size(0) * p.size(2) * p.size(3);
        expect_normal(p, std::sqrt(2.0 / static_cast<double>(fan_out)), where);
      }
      if (item.key() == "classifier.weight") expect_normal(p, 0.01, where);
      if (p.dim() == 1 && item.key() != "fc.bias") {  // batch normalisation's weight is 1, all biases 0
        const bool bias = item.key().ends_with(".bias");
        EXPECT_TRUE(torch::equal(p, bias ? torch::zeros_like(p) : torch::ones_like(p))) << where;
      }
    }
  }
}

TEST(Zoo, HoldsTheModelsInOrder) {
  const Zoo models = zoo();
  ASSERT_EQ(models.all().size(), expected_layers.size());
  for (std::size_t i = 0; i < expected_layers.size(); ++i) EXPECT_EQ(models.all()[i].name, expected_layers[i].first);
}

std::string usage_error(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Zoo, FindsWhatIsAddedAndNamesWhatItKnows) {
  Zoo models;
  models.add({"mine", "a test", 1, 28, 28, 10, 690'590, [] { return make_mnist_cnn(0); }});
  EXPECT_EQ(models.find("mine").title, "a test");
  EXPECT_EQ(usage_error([&] { models.find("vgg13"); }), "model \"vgg13\" is unknown; the known ones are mine");
  EXPECT_NE(usage_error([] { zoo().find(""); }).find("mnist-cnn, mnist-3conv, vgg11, vgg11-bn, vgg16, vgg16-imagenet"),
            std::string::npos);
}

TEST(Zoo, RefusesModelsThatCannotBe) {
  Zoo models = zoo();
  const ModelInfo good = models.find("vgg11");
  const auto refused = [&](auto change) {
    ModelInfo model = good;
    model.name = "mine";
    change(model);
    return usage_error([&] { models.add(model); });
  };
  EXPECT_NE(refused([](ModelInfo& m) { m.name = "vgg11"; }).find("\"vgg11\" already"), std::string::npos);
  EXPECT_NE(refused([](ModelInfo& m) { m.name = ""; }).find("without a name"), std::string::npos);
  EXPECT_NE(refused([](ModelInfo& m) { m.height = 0; }).find("3 x 0 x 32"), std::string::npos);
  EXPECT_NE(refused([](ModelInfo& m) { m.make = nullptr; }).find("no function"), std::string::npos);
  EXPECT_EQ(refused([](ModelInfo&) {}), "no error");
}

TEST(Zoo, NamesTheModelWhoseFunctionReturnsNull) {
  Zoo models;
  models.add({"mine", "a test", 1, 28, 28, 10, 1, [] { return std::shared_ptr<Classifier>(); }});
  EXPECT_EQ(usage_error([&] { models.find("mine").make(); }),
            "zoo: the function that makes model \"mine\" returned null");
}

TEST(MnistCnn, TakesADropoutRate) {
  const ModelInfo info = zoo().find("mnist-cnn");
  const torch::Tensor x = images(info, 2);
  const auto twice_alike = [&](double dropout) {
    const auto model = make_mnist_cnn(dropout);
    return torch::equal(model->forward(x), model->forward(x));
  };
  EXPECT_TRUE(twice_alike(0));
  EXPECT_FALSE(twice_alike(0.5));
  EXPECT_NE(usage_error([] { make_mnist_cnn(1); }).find("dropout = 1"), std::string::npos);
}

}  // namespace
}  // namespace ripieno::model
