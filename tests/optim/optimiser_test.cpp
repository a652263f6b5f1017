#include "ripieno/optim/optimiser.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "ripieno/core/random.h"
#include "tests/optim/torch_trajectories.h"

namespace ripieno::optim {
namespace {

/// Copies every piece of state out.
struct Saver : StateVisitor {
  std::map<std::string, std::vector<std::byte>> spans;
  std::map<std::string, std::int64_t> numbers;
  void span(std::string_view name, NumberSpan values) override {
    const std::vector<std::byte> bytes(values.bytes().begin(), values.bytes().end());
    ASSERT_TRUE(spans.emplace(name, bytes).second) << name;
  }
  void number(std::string_view name, std::int64_t& value) override {
    ASSERT_TRUE(numbers.emplace(name, value).second) << name;
  }
};

/// Puts what a Saver took into another optimiser.
struct Loader : StateVisitor {
  const Saver& saved;
  explicit Loader(const Saver& s) : saved(s) {}
  void span(std::string_view name, NumberSpan values) override {
    const auto& bytes = saved.spans.at(std::string(name));
    ASSERT_EQ(bytes.size(), values.size_bytes()) << name;
    if (!bytes.empty()) std::memcpy(values.data, bytes.data(), bytes.size());
  }
  void number(std::string_view name, std::int64_t& value) override { value = saved.numbers.at(std::string(name)); }
};

/// Every rule with and without each of its options.
std::vector<OptimiserOptions> option_sets() {
  std::vector<OptimiserOptions> sets;
  for (const Trajectory& trajectory : torch_trajectories()) sets.push_back(trajectory.options);
  return sets;
}

template <class T>
std::vector<T> random_numbers(std::size_t n, std::uint64_t stream) {
  Random random(7, stream);
  std::vector<T> numbers(n);
  for (T& x : numbers) x = static_cast<T>(random.uniform(-1, 1));
  return numbers;
}

template <class T>
void step(Optimiser& optimiser, std::vector<T>& weights, std::uint64_t s) {
  std::vector<T> gradients = random_numbers<T>(weights.size(), 100 + s);
  optimiser.begin_step();
  optimiser.update(0, std::span(weights), std::span(gradients), 0.05);
}

template <class T>
void follow_torch(double tolerance) {
  for (const Trajectory& torch : torch_trajectories()) {
    const OptimiserOptions& o = torch.options;
    SCOPED_TRACE(text(o.name, " momentum ", o.momentum, " weight_decay ", o.weight_decay, " beta1 ", o.beta1));
    const auto optimiser = make_optimiser(o, 3, sizeof(T) == 4 ? DType::fp32 : DType::fp64);
    std::vector<T> weights = {T(1), T(-0.5), T(0.25)};
    for (int s = 0; s < 6; ++s) {
      std::vector<T> gradients(3);
      for (int i = 0; i < 3; ++i) {
        gradients[i] = weights[i] * (T(0.5) + T(0.25) * i) + T((7 * s + 3 * i) % 5 - 2) / 8;
      }
      optimiser->begin_step();
      optimiser->update(0, std::span(weights), std::span(gradients), 0.125 / (1 + s));
      for (int i = 0; i < 3; ++i) EXPECT_NEAR(weights[i], torch.weights[s][i], tolerance) << "step " << s << ", " << i;
    }
  }
}

TEST(Optimiser, FollowsPyTorchInFp64) { follow_torch<double>(1e-15); }
TEST(Optimiser, FollowsPyTorchInFp32) { follow_torch<float>(1e-6); }

template <class T>
void any_partition_gives_the_same_bits() {
  constexpr std::size_t n = 103;  // no multiple of a vector's length
  for (const OptimiserOptions& options : option_sets()) {
    const DType type = sizeof(T) == 4 ? DType::fp32 : DType::fp64;
    const auto whole = make_optimiser(options, n, type), parts = make_optimiser(options, n, type);
    std::vector<T> expected = random_numbers<T>(n, 0), weights = expected;
    for (std::uint64_t s = 0; s < 4; ++s) {
      step(*whole, expected, s);
      std::vector<T> gradients = random_numbers<T>(n, 100 + s);
      const std::vector<std::size_t> cuts =
          s % 2 == 0 ? std::vector<std::size_t>{103, 64, 64, 17, 1, 0} : std::vector<std::size_t>{103, 101, 98, 5, 0};
      parts->begin_step();
      for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {  // from the back, as backward announces buckets
        parts->update(cuts[c + 1], NumberSpan(std::span(weights)).slice(cuts[c + 1], cuts[c]),
                      NumberSpan(std::span(gradients)).slice(cuts[c + 1], cuts[c]), 0.05);
      }
      ASSERT_EQ(std::memcmp(expected.data(), weights.data(), n * sizeof(T)), 0) << options.name << " step " << s;
    }
  }
}

TEST(Optimiser, AnyPartitionGivesTheSameBits) {
  any_partition_gives_the_same_bits<float>();
  any_partition_gives_the_same_bits<double>();
}

TEST(Optimiser, ResumesToTheBitFromAnyStep) {
  constexpr std::size_t n = 37;
  for (const OptimiserOptions& options : option_sets()) {
    for (std::uint64_t before : {0, 1, 3}) {
      const auto first = make_optimiser(options, n, DType::fp64), second = make_optimiser(options, n, DType::fp64);
      std::vector<double> expected = random_numbers<double>(n, 0);
      for (std::uint64_t s = 0; s < before; ++s) step(*first, expected, s);
      std::vector<double> weights = expected;
      Saver saver;
      first->visit(saver);
      Loader loader(saver);
      second->visit(loader);
      for (std::uint64_t s = before; s < before + 3; ++s) {
        step(*first, expected, s);
        step(*second, weights, s);
      }
      EXPECT_EQ(std::memcmp(expected.data(), weights.data(), n * sizeof(double)), 0)
          << options.name << " resumed after " << before << " steps";
    }
  }
}

TEST(Optimiser, ShowsItsWholeStateBeforeTheFirstStep) {
  const auto names = [](const OptimiserOptions& options) {
    const auto optimiser = make_optimiser(options, 5, DType::fp32);
    Saver saver;
    optimiser->visit(saver);
    EXPECT_EQ(saver.numbers, (std::map<std::string, std::int64_t>{{"optimiser.step", 0}}));
    std::string all;
    for (const auto& [name, bytes] : saver.spans) {
      EXPECT_EQ(bytes, std::vector<std::byte>(5 * sizeof(float))) << name;
      all += name + " ";
    }
    return all;
  };
  EXPECT_EQ(names({.name = "sgd"}), "");
  EXPECT_EQ(names({.name = "sgd", .momentum = 0.9}), "optimiser.momentum ");
  EXPECT_EQ(names({.name = "adam"}), "optimiser.mean optimiser.square ");
  EXPECT_EQ(names({.name = "adamw"}), "optimiser.mean optimiser.square ");
}

TEST(Optimiser, CountsStepsWithoutDataAndTakesEmptyParts) {
  for (const OptimiserOptions& options : option_sets()) {
    const auto simulated = make_optimiser(options, 1000, DType::fp32);
    for (int s = 0; s < 3; ++s) {
      simulated->begin_step();
      simulated->update(200, {nullptr, 800, DType::fp32}, {nullptr, 800, DType::fp32}, 0.1);
    }
    Saver saver;
    simulated->visit(saver);
    EXPECT_EQ(saver.numbers.at("optimiser.step"), 3);

    const auto empty = make_optimiser(options, 0, DType::fp64);
    std::vector<double> none;
    step(*empty, none, 0);
    step(*empty, none, 1);
  }
}

TEST(Optimiser, AsksNothingOfAWeightThatDecayDoesNotTouch) {
  for (const char* name : {"sgd", "adam", "adamw"}) {
    const auto optimiser = make_optimiser({.name = name}, 1, DType::fp32);
    std::vector<float> weights = {std::numeric_limits<float>::infinity()}, gradients = {1};
    optimiser->begin_step();
    optimiser->update(0, std::span(weights), std::span(gradients), 0.1);
    EXPECT_EQ(weights[0], std::numeric_limits<float>::infinity()) << name;
  }
}

/// The kind and text of the error that `f` throws.
template <class F>
std::pair<ErrorKind, std::string> error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  return {ErrorKind::io, "no error"};
}

TEST(Optimiser, RefusesOptionsOutOfRangeByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<OptimiserOptions, std::string>> wrong = {
      {{.name = "adagrad"}, "name = \"adagrad\" is unknown; the known ones are sgd, adam, adamw"},
      {{.momentum = 1.5}, "momentum = 1.5"},
      {{.momentum = nan}, "momentum = nan"},
      {{.weight_decay = -0.25}, "weight_decay = -0.25"},
      {{.weight_decay = infinity}, "weight_decay = inf"},
      {{.nesterov = true}, "nesterov = true with momentum = 0"},
      {{.name = "adam", .beta1 = 1}, "beta1 = 1"},
      {{.name = "adam", .beta2 = -1}, "beta2 = -1"},
      {{.name = "adamw", .epsilon = -2}, "epsilon = -2"},
  };
  for (const auto& [options, says] : wrong) {
    const auto [kind, message] = error_of([&, &o = options] { make_optimiser(o, 1, DType::fp32); });
    EXPECT_EQ(kind, ErrorKind::usage) << says;
    EXPECT_NE(message.find(says), std::string::npos) << message;
  }
  const auto [kind, message] = error_of([] { make_optimiser({}, 1, DType::bf16); });
  EXPECT_EQ(kind, ErrorKind::usage);
  EXPECT_NE(message.find("bf16"), std::string::npos) << message;
}

TEST(Optimiser, AssertsThatAPartFits) {
  const auto optimiser = make_optimiser({.momentum = 0.5}, 10, DType::fp32);
  std::vector<float> a(4), b(3);
  std::vector<double> c(4);
  const auto update = [&](std::size_t offset, NumberSpan weights, NumberSpan gradients) {
    const auto [kind, message] = error_of([&] { optimiser->update(offset, weights, gradients, 0.1); });
    EXPECT_EQ(kind, ErrorKind::internal) << message;
    return message;
  };
  EXPECT_NE(update(0, std::span(a), std::span(a)).find("before the first begin_step"), std::string::npos);
  optimiser->begin_step();
  EXPECT_NE(update(7, std::span(a), std::span(a)).find("offset 7 of 4 elements leaves the whole of 10"),
            std::string::npos);
  EXPECT_NE(update(0, std::span(a), std::span(b)).find("4 weights but 3 gradients"), std::string::npos);
  EXPECT_NE(update(0, std::span(c), std::span(c)).find("fp64"), std::string::npos);
}

}  // namespace
}  // namespace ripieno::optim
