#include "ripieno/c10d/limits.h"

#include <gtest/gtest.h>

namespace ripieno::c10d {
namespace {

TEST(Limits, AnErrorSaysWhereTheWaitingEnds) {
  EXPECT_EQ(because_of({}, {}), "");
  EXPECT_EQ(because_of({1}, {{1}, "rank 0 waits for 1, 1 does not answer"}), ": it waits for rank 1");
  EXPECT_EQ(because_of({1, 3}, {{1, 3}, ""}), ": it waits for ranks 1, 3");
  EXPECT_EQ(because_of({1}, {{2}, "rank 0 waits for 1, 1 for 2, 2 does not answer"}),
            ": it waits for rank 1 (rank 0 waits for 1, 1 for 2, 2 does not answer)");
  EXPECT_EQ(because_of({1}, {{}, "they wait for each other: rank 0 waits for 1, 1 for 0"}),
            ": it waits for rank 1 (they wait for each other: rank 0 waits for 1, 1 for 0)");
}

}  // namespace
}  // namespace ripieno::c10d
