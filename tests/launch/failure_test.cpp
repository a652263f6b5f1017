#include "ripieno/launch/failure.h"

#include <gtest/gtest.h>

namespace ripieno::launch {
namespace {

Failure follows(int rank, const std::string& words) {
  return {rank, Error(ErrorKind::peer, words), true, std::nullopt};
}

TEST(Failure, TheCauseIsAtTheEndOfTheChain) {
  const Failure one = follows(1, "rank 1: gave up on rank 0 after 2 s"),
                zero = follows(0, "rank 0: gave up on rank 2 after 2 s");
  const Failure late = follows(2, "rank 2: lost rank 0 (connection closed)");
  EXPECT_EQ(cause_of({one, zero, late}).rank, 0);
  EXPECT_EQ(cause_of({late, zero, one}).rank, 0);
  EXPECT_EQ(cause_of({late, one}).rank, 1);
  EXPECT_EQ(cause_of({follows(3, "rank 3: lost rank 2"), follows(2, "rank 2: lost rank 1 (closed)")}).rank, 2);
  EXPECT_EQ(cause_of({follows(1, "lost rank 0"), follows(0, "lost rank 1")}).rank, 1);  // each other: who said so first
  EXPECT_EQ(cause_of({one, {2, Error(ErrorKind::data, "broken"), false, std::nullopt}}).rank, 2);
}

TEST(Failure, ALossIsTheCauseOfWhatBlamesIt) {
  const std::vector<Failure> losses{
      {2, Error(ErrorKind::peer, "rank 2 was killed by signal 9 (Killed)"), false, std::nullopt}};
  const auto thrown = [&losses](const Failure& failure) -> std::string {
    try {
      throw_cause({failure}, losses);
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(thrown(follows(0, "rank 0: lost rank 2 (connection closed)")), losses[0].error.what());
  EXPECT_EQ(thrown(follows(1, "rank 1: rank 0 gave up: lost rank 2 (reset)")), losses[0].error.what());
  EXPECT_EQ(thrown(follows(0, "rank 0: gave up on rank 3 after 2 s")), "rank 0: gave up on rank 3 after 2 s");
  EXPECT_EQ(thrown({1, Error(ErrorKind::io, "lost rank 2?"), false, std::nullopt}), "lost rank 2?");
}

TEST(Failure, WhatWasToldStandsForWhoToldIt) {
  const Failure told = follows(2, "rank 2: rank 1 gave up: gave up on rank 0 after 2 s of waiting for ring");
  const Failure own = follows(1, "rank 1: gave up on rank 0 after 2 s of waiting for ring");
  EXPECT_EQ(cause_of({told, own}).rank, 1);
  EXPECT_EQ(cause_of({told, follows(0, "rank 0: lost rank 2 (connection closed)")}).rank, 2);
  const Failure of_a_loss =
      follows(0, "rank 0: rank 1 gave up: lost rank 2 (connection closed) while waiting for ring");
  EXPECT_EQ(cause_of({of_a_loss, follows(1, "rank 1: lost rank 2 (connection closed) while waiting for ring")}).rank,
            1);
  EXPECT_EQ(cause_of({of_a_loss, follows(2, "rank 2 was killed")}).rank, 2);
  EXPECT_EQ(cause_of({follows(0, "rank 0: rank 1 gave up: no more memory"), follows(1, "no more memory")}).rank, 1);
  EXPECT_EQ(blame_in("rank 0: rank 12 gave up: no more memory")->rank, 12);
  EXPECT_EQ(blame_in(of_a_loss.error.what())->rank, 2);
  EXPECT_FALSE(blame_in("the worker gave up: no reason"));
}

}  // namespace
}  // namespace ripieno::launch
