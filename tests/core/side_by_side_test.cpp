#include "ripieno/core/side_by_side.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace ripieno {
namespace {

TEST(SideBySide, EachRoundIsDoneOnce) {
  for (const std::size_t count : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> times(count);
    side_by_side(count, [&](std::size_t i) { ++times.at(i); });
    for (const auto& one : times) EXPECT_EQ(one, 1);
  }
}

TEST(SideBySide, TheFirstErrorIsThrownAndLittleIsBegunAfterIt) {
  std::atomic<int> begun{0};
  try {
    side_by_side(100000, [&](std::size_t i) {
      ++begun;
      if (i >= 10) throw std::runtime_error(std::to_string(i));
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "10");
  }
  EXPECT_LT(begun, 100000);
}

}  // namespace
}  // namespace ripieno
