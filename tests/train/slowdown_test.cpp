#include "ripieno/train/slowdown.h"

#include <gtest/gtest.h>

namespace ripieno::train {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST(Slowdown, WorkLastsTheFactorAsLong) {
  const auto start = Clock::now();
  Slowdown slowdown(3);
  for (int part = 1; part <= 2; ++part) {
    const auto begin = Clock::now();
    std::this_thread::sleep_for(5ms);
    slowdown.catch_up();
    EXPECT_GE(Clock::now() - begin, 15ms) << "part " << part;
  }
  EXPECT_GE(Clock::now() - start, 30ms);
}

TEST(Slowdown, WaitingIsNotSlowed) {
  const auto start = Clock::now();
  Slowdown slowdown(10'000);
  std::this_thread::sleep_for(5ms);
  slowdown.catch_up(10s);  // all that passed, and more; else it takes 50 s
  Slowdown(1).catch_up();
  EXPECT_LT(Clock::now() - start, 20s);
}

}  // namespace
}  // namespace ripieno::train
