#include "ripieno/launch/failure.h"

#include <gtest/gtest.h>

namespace ripieno {
namespace {

Failure follows(int rank, const std::string& words) { return {rank, Error(ErrorKind::peer, words), true, std::nullopt}; }

TEST(Failure, TheCauseIsAtTheEndOfTheChain) {
  const Failure one = follows(1, "rank 1: gave up on rank 0 after 2 s"), zero = follows(0, "rank 0: gave up on rank 2 after 2 s");
  const Failure late = follows(2, "rank 2: lost rank 0 (connection closed)");
  EXPECT_EQ(cause_of({one, zero, late}).rank, 0);
  EXPECT_EQ(cause_of({late, zero, one}).rank, 0);
  EXPECT_EQ(cause_of({late, one}).rank, 1);
  EXPECT_EQ(cause_of({follows(3, "rank 3: lost rank 2"), follows(2, "rank 2: lost rank 1 (closed)")}).rank, 2);
  EXPECT_EQ(cause_of({follows(1, "lost rank 0"), follows(0, "lost rank 1")}).rank, 1);  // each other: who said so first
  EXPECT_EQ(cause_of({one, {2, Error(ErrorKind::data, "broken"), false, std::nullopt}}).rank, 2);
}

}  // namespace
}  // namespace ripieno
