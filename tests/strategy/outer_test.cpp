#include "ripieno/strategy/outer.h"

#include "tests/strategy/federation.h"

namespace ripieno::strategy {
namespace {

using namespace testing::federated;

TEST(OuterOptimiser, MomentumAddsUpTheRoundsDifferences) {
  for (const double rate : {0.0, 0.5}) {
    Plan plan = plan_of(4);
    plan.outer.momentum = 0.8;
    plan.outer.learning_rate = rate;
    Vector m(10, 0.0);
    const auto server = [&m, rate](const Vector& w, const Vector& mean) {
      Vector next = w;
      for (std::size_t j = 0; j < w.size(); ++j) {
        m[j] = 0.8 * m[j] + (mean[j] - w[j]);
        next[j] += (rate > 0 ? rate : 1) * m[j];
      }
      return next;
    };
    expect_near(Federation("fedavgm", plan, testing::federated::uneven).run().model(),
                by_hand(plan, testing::federated::uneven, 10, server).back(), 1e-13);
  }
}

TEST(OuterOptimiser, AdamStepsOnTheAverageDifference) {
  for (const double rate : {0.0, 0.2}) {
    for (const bool deltas : {false, true}) {
      Plan plan = plan_of(4);
      plan.federated.deltas = deltas;
      plan.outer.learning_rate = rate;
      Vector m(10, 0.0), v(10, 0.0);
      int t = 0;
      const auto server = [&](const Vector& w, const Vector& mean) {
        Vector next = w;
        ++t;
        for (std::size_t j = 0; j < w.size(); ++j) {
          const double d = mean[j] - w[j];
          m[j] = 0.9 * m[j] + 0.1 * d;
          v[j] = 0.99 * v[j] + 0.01 * d * d;
          const double mean_change = m[j] / (1 - std::pow(0.9, t)), square = v[j] / (1 - std::pow(0.99, t));
          next[j] += (rate > 0 ? rate : 0.01) * mean_change / (std::sqrt(square) + 1e-3);
        }
        return next;
      };
      expect_near(Federation("fedadam", plan, testing::federated::uneven).run().model(),
                  by_hand(plan, testing::federated::uneven, 10, server).back(), 1e-12);
    }
  }
}

TEST(OuterOptimiser, EachStrategyHasItsOwn) {
  OuterOptions options;
  const std::map<std::string, double> rates{
      {"fedavg", 1}, {"local-sgd", 1}, {"fedavgm", 1}, {"fedadam", 0.01}, {"diloco", 0.7}};
  for (const auto& [name, rate] : rates) {
    EXPECT_EQ(outer_rate(name, {}), rate) << name;
    EXPECT_EQ(outer_rate(name, {.learning_rate = 0.3}), 0.3) << name;
  }
  EXPECT_THROW(outer_rate("ddp", {}), Error);
  EXPECT_THROW(outer_rate("fedadam", {.learning_rate = -0.1}), Error);
  EXPECT_THROW(outer_rate("fedadam", {.learning_rate = NAN}), Error);
  EXPECT_THROW(make_outer("ddp", {}, 3, DType::fp64), Error);
  // DiLoCo's: Nesterov momentum, g + mu m with m = mu m + g.
  const auto outer = make_outer("diloco", options, 1, DType::fp64);
  Vector w{1}, gradient{2};
  double expected = 1, m = 0;
  for (int t = 0; t < 3; ++t) {
    m = 0.9 * m + 2;
    expected -= 0.7 * (2 + 0.9 * m);
    outer->begin_step();
    outer->update(0, NumberSpan(w), NumberSpan(gradient), outer_rate("diloco", options));
    EXPECT_NEAR(w[0], expected, 1e-14);
  }
  State state;
  visit_outer(*outer, state);
  EXPECT_EQ(state.numbers.at("outer.optimiser.step"), 3);
  EXPECT_NEAR(state.spans.at("outer.optimiser.momentum")[0], m, 1e-14);
}

}  // namespace
}  // namespace ripieno::strategy
