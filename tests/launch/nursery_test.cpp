// Workers that a nursery forks are what they would be by themselves. They are this program, run as `launch_test worker
// WHAT` (local_test.cpp).
#include "ripieno/launch/nursery.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/launch/local_jobs.h"

namespace ripieno::launch {
namespace {

using namespace testing;  // NOLINT

LocalJob forked(int workers, const std::string& what) {
  LocalJob job = self(workers, what);
  job.forks = true;
  return job;
}

TEST(Nursery, ItsWorkersHaveTheirOwnPlaces) {
  const std::size_t before = open_descriptors();
  for (const bool forks : {false, true}) {
    LocalJob job = self(3, "place");
    job.forks = forks;
    job.variables = {{"RIPIENO_TEST_WORD", "word"}};
    const LocalResult result = run(job);
    EXPECT_EQ(result.error, "");
    std::set<pid_t> processes;
    for (int rank = 0; rank < 3; ++rank) {
      const nlohmann::json& place = result.messages.at(rank).at(0);
      EXPECT_EQ(place.at("rank"), rank);
      EXPECT_EQ(place.at("parent"), getpid());
      EXPECT_EQ(place.at("group"), place.at("process"));
      EXPECT_EQ(place.at("descriptors"), (std::vector<int>{0, 1, 2, 3}));
      EXPECT_EQ(place.at("input"), "/dev/null");
      EXPECT_EQ(place.at("word"), "word");
      EXPECT_EQ(place.at("nursery"), "");
      EXPECT_EQ(place.at("forked"), forks);
      EXPECT_EQ(place.at("arguments"), (std::vector<std::string>{"worker", "place"}));
      EXPECT_EQ(place.at("death_signal"), SIGKILL);
      processes.insert(place.at("process").get<pid_t>());
      EXPECT_EQ(result.lines.at(rank), std::vector<std::string>{text("error line of ", rank)});
    }
    EXPECT_EQ(processes.size(), 3u);
  }
  expect_no_children();
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Nursery, ItsWorkersMeetAndFailAsOthersDo) {
  const LocalResult sums = run(forked(4, "sum"));
  EXPECT_EQ(sums.error, "");
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(sums.messages.at(rank).at(0).at("sum"), 0 + 1 + 2 + 3);
  EXPECT_EQ(run(forked(3, "lost")).error, "rank 2 was killed by signal 9 (Killed)");
  EXPECT_EQ(run(forked(3, "data")).error, "rank 2: broken data");
  EXPECT_EQ(run(forked(3, "mismatch")).kind, ErrorKind::mismatch);
  for (int job = 0; job < 5; ++job) EXPECT_EQ(run(forked(2 + job, "steps")).error, "");
  expect_no_children();
}

TEST(Nursery, AProgramThatHasThreadsByThenStartsEachWorkerByItself) {
  const LocalResult result = run(forked(2, "threads"));
  EXPECT_EQ(result.error, "");
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(result.messages.at(rank).at(0).at("rank"), rank);
    EXPECT_GE(result.messages.at(rank).at(0).at("threads"), 2);  // ThreadSanitizer has one, too
    EXPECT_EQ(result.messages.at(rank).at(0).at("forked"), false);
  }
  expect_no_children();
}

TEST(Nursery, ALauncherThatIsToldToEndDoesNotWaitUntilTheProgramIsLoaded) {
  LocalJob job = forked(2, "loads");
  int started = 0;
  job.on_message = [&](int, const nlohmann::json&) { ++started; };
  std::thread user([] {
    sigset_t end;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &end, nullptr);  // the launcher's own thread gets it, as where no other thread is
    struct sigaction now {};
    while (sigaction(SIGTERM, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::this_thread::yield();
    kill(getpid(), SIGTERM);  // once the launcher hears it
  });
  EXPECT_THROW(run_local(job), Interrupted);
  user.join();
  EXPECT_EQ(started, 0);
  expect_no_children();
}

TEST(Nursery, AProgramThatIsNotThereIsNamed) {
  LocalJob job;
  job.workers = 2;
  job.command = {"/no/such/program"};
  job.forks = true;
  EXPECT_EQ(run(job).error, "cannot run '/no/such/program': No such file or directory");
  expect_no_children();
}

TEST(Nursery, ALauncherThatIsToldToEndLeavesNoWorker) {
  LocalJob job = forked(3, "sleeps");
  job.on_message = [&](int rank, const nlohmann::json&) {
    if (rank == 2) kill(getpid(), SIGTERM);
  };
  EXPECT_THROW(run_local(job), Interrupted);
  expect_no_children();
}

/// Of this process, but for the nursery itself.
std::vector<pid_t> workers_here(const std::set<pid_t>& known) {
  std::ifstream file(text("/proc/self/task/", getpid(), "/children"));
  std::vector<pid_t> found;
  for (pid_t child = 0; file >> child;) {
    if (!known.contains(child)) found.push_back(child);
  }
  return found;
}

TEST(Nursery, AWorkerThatIsKilledWhileItStartsIsNamedAtOnce) {
  for (int job = 0; job < 10; ++job) {
    std::atomic<bool> is_over = false;
    std::thread killer([&is_over] {  // it kills the first worker as soon as it is there, ready or not
      std::set<pid_t> nursery;
      while (!is_over) {
        const std::vector<pid_t> children = workers_here(nursery);
        if (children.empty()) continue;
        if (!nursery.empty()) {
          kill(children.front(), SIGKILL);
          return;
        }
        nursery.insert(children.begin(), children.end());
      }
    });
    const LocalResult result = run(forked(2, "sleeps"));
    is_over = true;
    killer.join();
    EXPECT_NE(result.error.find("was killed by signal 9 (Killed)"), std::string::npos) << result.error;
    expect_no_children();
  }
}

TEST(Nursery, AKilledLauncherLeavesNoWorker) { expect_to_die_with_the_launcher(forked(2, "sleeps")); }

}  // namespace
}  // namespace ripieno::launch
