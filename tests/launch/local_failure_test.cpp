// Which worker's failure is a job's, and how the others end.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>

#include "tests/launch/local_jobs.h"

namespace ripieno::launch {
namespace {

using namespace testing;  // NOLINT

TEST(Local, AWorkerThatLostAPeerIsNotTheCauseHoweverItEnds) {
  for (const char* end : {"kill -ABRT $$", "exit 1"}) {
    const LocalResult result =
        run(shell(2, text("if [ $RIPIENO_RANK = 0 ]; then echo '{\"type\": \"lost-peer\"}' >&3; ", end,
                          "; fi; sleep 0.3; echo no such batch >&2; ", end)));
    EXPECT_EQ(result.error.rfind("rank 1 ", 0), 0u) << result.error;
    EXPECT_NE(result.error.find("no such batch"), std::string::npos) << result.error;
  }
}

TEST(Local, AFailureIsTheWorkersOwnAndEndsTheOthers) {
  // The others would sleep for 100 s; the test's own time limit is below that.
  const LocalResult result =
      run(shell(3,
                "if [ $RIPIENO_RANK = 1 ]; then"
                "  echo '{\"type\": \"failed\", \"kind\": \"data\", \"message\": \"no such data set\"}' >&3; exit 3;"
                "fi; sleep 100"));
  EXPECT_EQ(result.error, "rank 1: no such data set");
  EXPECT_EQ(result.kind, ErrorKind::data);
  expect_no_children();
}

TEST(Local, AWorkerThatEndsWithoutAWordIsNamedWithItsLastLines) {
  const LocalResult result =
      run(shell(2, "if [ $RIPIENO_RANK = 1 ]; then echo one >&2; echo two >&2; exit 3; fi; sleep 100"));
  EXPECT_EQ(result.error, "rank 1 exited with code 3; its last lines on standard error:\n  one\n  two");
  EXPECT_EQ(result.kind, ErrorKind::peer);
}

TEST(Local, AKilledWorkerIsTheCauseEvenIfOthersReportItFirst) {
  LocalJob job = shell(3,
                       "if [ $RIPIENO_RANK = 2 ]; then sleep 0.3; kill -9 $$; fi;"
                       "echo '{\"type\": \"failed\", \"kind\": \"peer\", \"message\": \"lost rank 2\"}' >&3; exit 6");
  const LocalResult result = run(job);
  EXPECT_EQ(result.error, "rank 2 was killed by signal 9 (Killed)");
  expect_no_children();
}

TEST(Local, ALostPeerIsTheFailureWhereNothingElseFailed) {
  LocalJob job = shell(2,
                       "if [ $RIPIENO_RANK = 1 ]; then"
                       "  echo '{\"type\": \"failed\", \"kind\": \"peer\", \"message\": \"rank 1: lost rank 0\", "
                       "\"loss\": {\"rank\": 0}}' >&3;"
                       "  exit 6;"
                       "fi; sleep 100");
  job.grace = std::chrono::milliseconds(100);
  const LocalResult result = run(job);
  EXPECT_EQ(result.error, "rank 1: lost rank 0");
  EXPECT_EQ(result.kind, ErrorKind::peer);
}

TEST(Local, WorkersThatWillNotEndAreKilledWithAllThatTheyStarted) {
  // `sleep` is a child of the shell that ignores SIGTERM like it, and holds its pipes.
  LocalJob job = shell(2, "if [ $RIPIENO_RANK = 1 ]; then sleep 0.2; exit 4; fi; trap '' TERM; sleep 100; sleep 100");
  job.grace = std::chrono::milliseconds(200);
  EXPECT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  const LocalResult result = run(job);
  EXPECT_EQ(result.error, "rank 1 exited with code 4");
  int status = 0;
  while (waitpid(-1, &status, 0) > 0) EXPECT_TRUE(WIFSIGNALED(status));  // the orphaned sleep
  EXPECT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

TEST(Local, WhoWaitedInVainNamesWhoDidNotCome) {
  // Rank 2 does not come; rank 0, a server, gives up on it; rank 1 hears first that rank 0 ends.
  LocalJob job = shell(3, R"(
    case $RIPIENO_RANK in
      0) sleep 0.05; rank=2; how=silent; why='rank 0 speaks of rank 1';;
      1) rank=0; how=ended; why='rank 1: gave up on rank 0';;
      2) exec sleep 100;;
    esac
    echo "{\"type\": \"failed\", \"kind\": \"peer\", \"message\": \"$why\"," \
         "\"loss\": {\"rank\": $rank, \"how\": \"$how\"}}" >&3
    exit 6)");
  job.grace = std::chrono::milliseconds(300);
  EXPECT_EQ(run(job).error, "rank 0 speaks of rank 1");
}

TEST(Local, WhatAWorkerPrintsMakesItNoVictim) {
  // Neither has lost a peer, whatever their last lines say: the first that ends is the cause.
  const LocalResult result =
      run(shell(2,
                "if [ $RIPIENO_RANK = 0 ]; then echo 'rank 0: lost rank 1 (reset)' >&2; exit 1; fi;"
                "sleep 100"));
  EXPECT_EQ(result.error,
            "rank 0 exited with code 1; its last lines on standard error:\n  rank 0: lost rank 1 (reset)");
}

}  // namespace
}  // namespace ripieno::launch
