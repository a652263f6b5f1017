#include "ripieno/launch/failure.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ripieno/core/random.h"

namespace ripieno::launch {
namespace {

/// What messages might say; none of it counts.
const std::vector<std::string> words{"",
                                     "lost rank 0 (connection closed)",
                                     "rank 3: gave up on rank 1 after 2 s",
                                     "rank 0: rank 2 gave up: lost rank 3 (reset)",
                                     "rank 1: the others go on without it",
                                     "rank 2 was killed by signal 9 (Killed)"};

Failure follows(int rank, const Loss& loss, const std::string& said = "in words") {
  return {rank, Error(loss, said), true, std::nullopt};
}

TEST(Failure, TheCauseIsAtTheEndOfTheChain) {
  const Failure one = follows(1, {0, Lost::silent}), zero = follows(0, {2, Lost::silent});
  const Failure late = follows(2, {0, Lost::ended});
  EXPECT_EQ(cause_of({one, zero, late}).rank, 0);
  EXPECT_EQ(cause_of({late, zero, one}).rank, 0);
  EXPECT_EQ(cause_of({late, one}).rank, 1);
  EXPECT_EQ(cause_of({follows(3, {2}), follows(2, {1})}).rank, 2);
  EXPECT_EQ(cause_of({follows(1, {0}), follows(0, {1})}).rank, 1);  // each other: who said so first
  EXPECT_EQ(cause_of({one, {2, Error(ErrorKind::data, "broken"), false, std::nullopt}}).rank, 2);
  EXPECT_EQ(cause_of({late, follows(1, {-1, Lost::silent})}).rank, 1) << "who waited in vain, for nobody knows whom";
  EXPECT_EQ(cause_of({follows(0, {-1, Lost::silent}), follows(-1, {2})}).rank, 0)
      << "the rendezvous is not the lost one";
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
  EXPECT_EQ(thrown(follows(0, {2, Lost::ended})), losses[0].error.what());
  EXPECT_EQ(thrown(follows(1, {2, Lost::ended, 0})), losses[0].error.what());
  EXPECT_EQ(thrown(follows(0, {3, Lost::silent}, "lost rank 2")), "lost rank 2");
  EXPECT_EQ(thrown({1, Error(ErrorKind::io, "lost rank 2?", Loss{2}), false, std::nullopt}), "lost rank 2?");
}

TEST(Failure, WhatWasToldStandsForWhoToldIt) {
  const Failure told = follows(2, {0, Lost::silent, 1}), own = follows(1, {0, Lost::silent});
  EXPECT_EQ(cause_of({told, own}).rank, 1);
  EXPECT_EQ(cause_of({told, follows(0, {2, Lost::ended})}).rank, 2);
  const Failure of_a_loss = follows(0, {2, Lost::ended, 1});
  EXPECT_EQ(cause_of({of_a_loss, follows(1, {2, Lost::ended})}).rank, 1);
  EXPECT_EQ(cause_of({of_a_loss, {2, Error(ErrorKind::peer, "killed"), true, std::nullopt}}).rank, 2);
  const Failure own_reason{1, Error(ErrorKind::peer, "no more memory"), true, std::nullopt};
  EXPECT_EQ(cause_of({follows(0, {1, Lost::gave_up, 1}), own_reason}).rank, 1);
}

TEST(Failure, WordsChangeNoCulprit) {
  Random random(1, 0);
  const auto below = [&random](std::uint64_t end) { return static_cast<int>(random.below(end)); };
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<Failure> plain, scrambled;
    for (int i = below(4); i >= 0; --i) {
      const int rank = below(4);
      Loss loss{below(5) - 1, static_cast<Lost>(below(4))};
      if (below(2) == 0) loss.told_by = below(4);
      const bool has_loss = below(4) > 0, follows = below(8) > 0;
      const auto with = [&](const std::string& said) {
        return Failure{rank, Error(ErrorKind::peer, said, has_loss ? std::optional(loss) : std::nullopt), follows, {}};
      };
      plain.push_back(with("x"));
      scrambled.push_back(with(words[static_cast<std::size_t>(below(words.size()))]));
    }
    const auto place = [](const std::vector<Failure>& all) { return &cause_of(all) - all.data(); };
    ASSERT_EQ(place(scrambled), place(plain)) << trial;
  }
}

TEST(Failure, TravelsWithItsLoss) {
  for (const std::optional<Loss>& loss :
       {std::optional<Loss>(), std::optional(Loss{2, Lost::silent, 0}), std::optional(Loss{-1, Lost::left_out})}) {
    const Failure failure{1, Error(ErrorKind::peer, "words", loss), true, 6};
    const Failure back = failure_from(to_json(failure));
    EXPECT_EQ(back.error.loss(), loss);
    EXPECT_EQ(back.rank, 1);
    EXPECT_EQ(back.code, 6);
  }
  EXPECT_FALSE(loss_from("lost rank 2"));
  EXPECT_FALSE(loss_from({{"rank", "2"}}));
  EXPECT_EQ(failure_from({{"rank", 1}}).error.kind(), ErrorKind::internal);
}

}  // namespace
}  // namespace ripieno::launch
