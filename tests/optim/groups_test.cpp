#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "ripieno/core/random.h"
#include "ripieno/optim/loss_scale.h"
#include "ripieno/optim/muon.h"
#include "ripieno/optim/optimiser.h"

namespace ripieno::optim {
namespace {

std::vector<double> random_numbers(std::size_t n, std::uint64_t stream) {
  Random random(7, stream);
  std::vector<double> numbers(n);
  for (double& x : numbers) x = random.uniform(-1, 1);
  return numbers;
}

/// A first layer (3 x 2 and 3), a hidden one (4 x 3 and 4) and the last (2 x 4 and 2).
constexpr std::size_t n = 35;
std::vector<TensorShape> tensors() {
  return {{0, 6, 3, true}, {6, 9, 0, true}, {9, 21, 4}, {21, 25, 0}, {25, 33, 2}, {33, 35, 0}};
}

OptimiserOptions muon() {
  OptimiserOptions options{.name = "muon", .momentum = 0.6, .nesterov = true, .newton_schulz = 3, .normalise = true};
  options.sgd_momentum = 0.8;
  options.tensors = tensors();
  return options;
}

void step(Optimiser& optimiser, std::vector<double>& weights, std::uint64_t s, double rate = 0.05) {
  std::vector<double> gradients = random_numbers(weights.size(), 100 + s);
  optimiser.begin_step();
  optimiser.update(0, std::span(weights), std::span(gradients), rate);
}

TEST(Orthogonalise, BringsSingularValuesNearOneWhateverTheScale) {
  for (const auto& [rows, columns] : {std::pair{8, 30}, {30, 8}, {16, 16}}) {
    const auto count = static_cast<std::size_t>(rows * columns);
    std::vector<double> matrix = random_numbers(count, 1), large = matrix;
    for (double& x : large) x *= 1e6;
    orthogonalise(matrix.data(), rows, columns, 7);
    orthogonalise(large.data(), rows, columns, 7);
    for (std::size_t i = 0; i < count; ++i) ASSERT_NEAR(matrix[i], large[i], 1e-5);
    const int small = std::min(rows, columns);
    double squares = 0;  // of the singular values, each from about 0.7 to 1.2
    for (const double x : matrix) squares += x * x;
    EXPECT_GT(squares, 0.45 * small);
    EXPECT_LT(squares, 1.5 * small);
  }
}

TEST(Orthogonalise, KeepsWhatIsOrthogonalInItsDirection) {
  std::vector<double> matrix(12, 0);  // 3 x 4
  for (std::size_t i = 0; i < 3; ++i) matrix[i * 4 + i] = 5;
  orthogonalise(matrix.data(), 3, 4, 3);
  for (std::size_t i = 0; i < 12; ++i) {
    if (i % 5 == 0) {
      EXPECT_NEAR(matrix[i], matrix[0], 1e-12);
    } else {
      EXPECT_EQ(matrix[i], 0);
    }
  }
  EXPECT_GT(matrix[0], 0.5);
}

TEST(Groups, VectorsAndTheHeadStepAtRatesOfTheirOwn) {
  OptimiserOptions options{.vector_factor = 64, .head_factor = 4, .tensors = tensors()};
  const auto grouped = make_optimiser(options, n, DType::fp64), plain = make_optimiser({}, n, DType::fp64);
  std::vector<double> a = random_numbers(n, 0), b = a, start = a;
  step(*grouped, a, 0);
  step(*plain, b, 0);
  for (std::size_t i = 0; i < n; ++i) {
    const bool vector = (i >= 6 && i < 9) || (i >= 21 && i < 25) || i >= 33;
    const double factor = vector ? 64 : i >= 25 ? 4 : 1;
    EXPECT_NEAR(a[i] - start[i], factor * (b[i] - start[i]), 1e-13) << i;
  }
}

TEST(Groups, WeightDecayIsNotTimesTheFactor) {
  OptimiserOptions options{.weight_decay = 0.1, .vector_factor = 64, .tensors = tensors()};
  const auto optimiser = make_optimiser(options, n, DType::fp64);
  std::vector<double> weights(n, 1), gradients(n, 0);
  optimiser->begin_step();
  optimiser->update(0, std::span(weights), std::span(gradients), 0.5);
  for (const double w : weights) EXPECT_NEAR(w, 0.95, 1e-15);
}

TEST(Groups, TheFirstLayerSlowsDownAndThenRests) {
  OptimiserOptions options{.first_layer_steps = 4, .first_layer_rate = 1, .tensors = tensors()};
  const auto optimiser = make_optimiser(options, n, DType::fp64);
  std::vector<double> weights(n, 0), gradients(n, 1);
  double first = 0, other = 0;
  for (int s = 0; s < 6; ++s) {
    optimiser->begin_step();
    const double scheduled = 1 - s / 6.0;
    optimiser->update(0, std::span(weights), std::span(gradients), scheduled);
    first -= std::max(0.0, 1 - s / 4.0);  // by a schedule of its own
    other -= scheduled;
    EXPECT_DOUBLE_EQ(weights[0], first) << s;
    EXPECT_DOUBLE_EQ(weights[8], first) << s;
    EXPECT_DOUBLE_EQ(weights[9], other) << s;
  }
}

/// What the optimisers of this file have in common with all: options that use every part of them.
std::vector<OptimiserOptions> grouped_options() {
  OptimiserOptions all = muon();
  all.vector_factor = 3;
  all.head_factor = 2;
  all.weight_decay = 0.1;
  all.first_layer_steps = 5;
  all.first_layer_rate = 0.05;
  all.lookahead_every = 2;
  all.lookahead_power = 1;
  all.total_steps = 7;
  OptimiserOptions adam{.name = "adam", .vector_factor = 2, .tensors = tensors()};
  adam.lookahead_every = 3;
  return {muon(), all, adam};
}

TEST(Groups, AnyPartitionIntoTensorsGivesTheSameBits) {
  for (const OptimiserOptions& options : grouped_options()) {
    const auto whole = make_optimiser(options, n, DType::fp64), parts = make_optimiser(options, n, DType::fp64);
    std::vector<double> expected = random_numbers(n, 0), weights = expected;
    for (std::uint64_t s = 0; s < 8; ++s) {
      step(*whole, expected, s);
      std::vector<double> gradients = random_numbers(n, 100 + s);
      parts->begin_step();
      for (const auto& [begin, end] : {std::pair{33, 35}, {9, 33}, {0, 9}}) {  // as backward announces buckets
        parts->update(begin, NumberSpan(std::span(weights)).slice(begin, end),
                      NumberSpan(std::span(gradients)).slice(begin, end), 0.05);
      }
      ASSERT_EQ(std::memcmp(expected.data(), weights.data(), n * sizeof(double)), 0) << options.name << " step " << s;
    }
  }
}

struct SavesAndRestores : StateVisitor {
  std::map<std::string, std::vector<std::byte>> spans;
  std::map<std::string, std::int64_t> numbers;
  bool restoring = false;
  void span(std::string_view name, NumberSpan values) override {
    auto& bytes = spans[std::string(name)];
    if (!restoring) return void(bytes.assign(values.bytes().begin(), values.bytes().end()));
    ASSERT_EQ(bytes.size(), values.size_bytes()) << name;
    std::copy(bytes.begin(), bytes.end(), values.bytes().begin());
  }
  void number(std::string_view name, std::int64_t& value) override {
    auto& saved = numbers[std::string(name)];
    (restoring ? value : saved) = restoring ? saved : value;
  }
};

TEST(Groups, ResumesToTheBit) {
  for (const OptimiserOptions& options : grouped_options()) {
    const auto first = make_optimiser(options, n, DType::fp64), second = make_optimiser(options, n, DType::fp64);
    std::vector<double> expected = random_numbers(n, 0);
    for (std::uint64_t s = 0; s < 3; ++s) step(*first, expected, s);
    std::vector<double> weights = expected;
    SavesAndRestores saver;
    first->visit(saver);
    saver.restoring = true;
    second->visit(saver);
    for (std::uint64_t s = 3; s < 7; ++s) {
      step(*first, expected, s);
      step(*second, weights, s);
    }
    EXPECT_EQ(std::memcmp(expected.data(), weights.data(), n * sizeof(double)), 0) << options.name;
  }
}

TEST(Groups, StateIsCalledByItsGroup) {
  const auto optimiser = make_optimiser(grouped_options()[1], n, DType::fp64);
  SavesAndRestores saver;
  optimiser->visit(saver);
  std::string spans;
  for (const auto& [name, bytes] : saver.spans) spans += name + " ";
  EXPECT_EQ(spans,
            "lookahead.slow optimiser.first_matrices.momentum optimiser.first_vectors.momentum optimiser.head.momentum "
            "optimiser.matrices.momentum optimiser.vectors.momentum ");
}

TEST(Muon, RefusesHalfAMatrixAndTensorsThatAreNotTheModel) {
  const auto optimiser = make_optimiser(muon(), n, DType::fp64);
  std::vector<double> weights(n, 1), gradients(n, 1);
  optimiser->begin_step();
  EXPECT_THROW(optimiser->update(0, NumberSpan(std::span(weights)).slice(0, 12),
                                 NumberSpan(std::span(gradients)).slice(0, 12), 0.1),
               Error);
  EXPECT_THROW(make_optimiser(muon(), n + 1, DType::fp64), Error);
}

TEST(Lookahead, EndsAtItsMean) {
  OptimiserOptions options;
  options.lookahead_every = 4;
  options.lookahead_decay = 0.75;
  options.total_steps = 6;
  const auto optimiser = make_optimiser(options, 1, DType::fp64);
  std::vector<double> w = {0}, gradients = {-1};
  const double due[] = {1, 2, 3, 1, 2, 1};  // slow: 0.25 * 4 = 1
  for (int s = 0; s < 6; ++s) {
    optimiser->begin_step();
    optimiser->update(0, std::span(w), std::span(gradients), 1);
    EXPECT_DOUBLE_EQ(w[0], due[s]) << s;
  }
}

TEST(Lookahead, LeavesWeightsThatHaveNoMean) {
  OptimiserOptions options;
  options.lookahead_every = 4;
  options.total_steps = 3;
  const auto optimiser = make_optimiser(options, 1, DType::fp64);
  std::vector<double> w = {0}, gradients = {-1};
  for (int s = 0; s < 3; ++s) {
    optimiser->begin_step();
    optimiser->update(0, std::span(w), std::span(gradients), 1);
  }
  EXPECT_EQ(w[0], 3);
}

TEST(LossScale, StaysWhereItCanChangeAgain) {
  LossScale scale({.interval = 1});
  for (int step = 0; step < 3000; ++step) scale.update(false);
  EXPECT_EQ(scale.value(), 0x1p-14);
  for (int step = 0; step < 3000; ++step) scale.update(true);
  EXPECT_EQ(scale.value(), 0x1p127);
  scale.update(false);
  EXPECT_EQ(scale.value(), 0x1p126);
}

}  // namespace
}  // namespace ripieno::optim
