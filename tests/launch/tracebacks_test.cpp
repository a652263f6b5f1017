#include "ripieno/launch/tracebacks.h"

#include <gtest/gtest.h>

namespace ripieno::launch {
namespace {

using Lines = std::vector<std::string>;

const std::string head = "Traceback (most recent call last):", place = "  File \"a.py\", line 3, in <module>";

Lines say(Tracebacks* all, int rank, const Lines& lines) {
  Lines shown;
  for (const std::string& line : lines) {
    const Lines some = all->take(rank, line);
    shown.insert(shown.end(), some.begin(), some.end());
  }
  return shown;
}

TEST(Tracebacks, AreShownOnceAndTheirErrorsByEveryRank) {
  Tracebacks all;
  const Lines lines{"begins", head, place, "    f()", "ValueError: no", "ends"};
  EXPECT_EQ(say(&all, 0, lines), lines);
  EXPECT_EQ(say(&all, 1, lines), (Lines{"begins", "ValueError: no  (as rank 0)", "ends"}));
  const Lines others{head, place, "    f()", "ValueError: of rank 2"};
  EXPECT_EQ(say(&all, 2, others), others) << "another error";
  EXPECT_EQ(say(&all, 0, {head, place, "    f()", "ValueError: no"}).size(), 4u) << "again by the same rank";
}

TEST(Tracebacks, WithoutAnEndAreShownAtTheRanksEnd) {
  Tracebacks all;
  EXPECT_EQ(say(&all, 0, {head, place}), Lines());
  EXPECT_EQ(all.end(0), (Lines{head, place}));
  EXPECT_EQ(all.end(0), Lines());
}

}  // namespace
}  // namespace ripieno::launch
