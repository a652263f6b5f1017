// Workers that are lost while the others go on.
#include <gtest/gtest.h>

#include "tests/launch/local_jobs.h"

namespace ripieno::launch {
namespace {

using testing::expect_no_children;
using testing::LocalResult;
using testing::shell;

struct LossResult : LocalResult {
  std::vector<Failure> losses;
};

LossResult run_with_losses(LocalJob job) {
  std::vector<Failure> losses;
  job.on_loss = [&losses](const Failure& loss) { losses.push_back(loss); };
  return {testing::run(std::move(job)), std::move(losses)};
}

const std::string survives = "echo '{\"type\": \"survives\"}' >&3;";

TEST(LocalLoss, TheOthersGoOnWithoutAKilledWorker) {
  const LossResult result = run_with_losses(
      shell(3, survives + "if [ $RIPIENO_RANK = 2 ]; then echo last >&2; kill -9 $$; fi; sleep 0.5; echo done >&2"));
  EXPECT_EQ(result.error, "");
  ASSERT_EQ(result.losses.size(), 1u);
  EXPECT_EQ(result.losses[0].rank, 2);
  EXPECT_STREQ(result.losses[0].error.what(),
               "rank 2 was killed by signal 9 (Killed); its last lines on standard error:\n  last");
  for (const int rank : {0, 1}) EXPECT_EQ(result.lines.at(rank).back(), "done") << rank;
  expect_no_children();
}

TEST(LocalLoss, NobodyGoesOnWithoutRank0) {
  const LossResult result =
      run_with_losses(shell(2, survives + "if [ $RIPIENO_RANK = 0 ]; then sleep 0.2; kill -9 $$; fi; sleep 100"));
  EXPECT_EQ(result.error, "rank 0 was killed by signal 9 (Killed)");
  EXPECT_TRUE(result.losses.empty());
}

TEST(LocalLoss, BeforeItHasSaidSoAWorkerIsMissed) {
  const LossResult result =
      run_with_losses(shell(2, "if [ $RIPIENO_RANK = 1 ]; then sleep 0.2; kill -9 $$; fi;" + survives + "sleep 100"));
  EXPECT_EQ(result.error, "rank 1 was killed by signal 9 (Killed)");
}

TEST(LocalLoss, AWorkerThatEndsByItselfIsMissed) {
  const LossResult result =
      run_with_losses(shell(2, survives + "if [ $RIPIENO_RANK = 1 ]; then sleep 0.2; exit 3; fi; sleep 100"));
  EXPECT_EQ(result.error, "rank 1 exited with code 3");
}

TEST(LocalLoss, WhereTheOthersCannotGoOnTheLossIsTheCause) {
  LocalJob job = shell(3, survives + R"sh(
    if [ $RIPIENO_RANK = 2 ]; then kill -9 $$; fi
    if [ $RIPIENO_RANK = 1 ]; then sleep 100; fi
    sleep 0.3
    echo '{"type": "failed", "kind": "peer", "message": "in words", "loss": {"rank": 2}}' >&3
    exit 6)sh");
  job.grace = std::chrono::milliseconds(200);
  const LossResult result = run_with_losses(job);
  EXPECT_EQ(result.error, "rank 2 was killed by signal 9 (Killed)");
  EXPECT_EQ(result.losses.size(), 1u);
}

TEST(LocalLoss, AWorkerThatTheOthersLeaveOutSaysSoByAValue) {
  const std::string left_out = "\"loss\": {\"rank\": 1, \"how\": \"left out\"}";
  for (const std::string& loss : {left_out, std::string("\"loss\": {\"rank\": 0, \"how\": \"ended\"}")}) {
    LocalJob job =
        shell(2, survives + "if [ $RIPIENO_RANK = 0 ]; then sleep 0.5; exit 0; fi;" +
                     "echo '{\"type\": \"failed\", \"kind\": \"peer\", \"message\": \"the others go on without it\", " +
                     loss + "}' >&3; exit 6");
    job.grace = std::chrono::milliseconds(100);
    const LossResult result = run_with_losses(job);
    EXPECT_EQ(result.error, loss == left_out ? "" : "rank 1: the others go on without it");
    EXPECT_EQ(result.losses.size(), loss == left_out ? 1u : 0u);
  }
}

TEST(LocalLoss, WhatEndsTheOthersLaterIsTheirOwnCause) {
  const LossResult result = run_with_losses(shell(2, survives + R"sh(
    if [ $RIPIENO_RANK = 1 ]; then kill -9 $$; fi
    sleep 0.3
    echo '{"type": "failed", "kind": "io", "message": "the disk is full"}' >&3
    exit 4)sh"));
  EXPECT_EQ(result.error, "rank 0: the disk is full");
}

}  // namespace
}  // namespace ripieno::launch
