// Workers are small shell scripts, or this program itself run as `launch_test worker WHAT`.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "ripieno/launch/control.h"
#include "ripieno/launch/environment.h"
#include "ripieno/launch/join.h"
#include "ripieno/launch/nursery.h"
#include "ripieno/launch/placement.h"
#include "ripieno/rendezvous/meet.h"
#include "ripieno/transport/tcp/endpoint.h"
#include "tests/launch/local_jobs.h"

namespace ripieno::launch {
namespace {

using namespace testing;  // NOLINT

std::vector<std::string> arguments;  // of this program

TEST(Local, AllSucceedAndMessagesAreRelayed) {
  const std::size_t before = open_descriptors();
  for (const int workers : {1, 3}) {
    const LocalResult result = run(shell(workers,
                                         "echo '{\"type\": \"hello\", \"rank\": '$RIPIENO_RANK'}' >&3;"
                                         "echo no json >&3; echo to stderr $RIPIENO_WORLD_SIZE >&2"));
    EXPECT_EQ(result.error, "");
    for (int rank = 0; rank < workers; ++rank) {
      const std::vector<nlohmann::json> expected{{{"type", "hello"}, {"rank", rank}}};
      EXPECT_EQ(result.messages.at(rank), expected);
      const auto& lines = result.lines.at(rank);
      EXPECT_EQ(std::count(lines.begin(), lines.end(), text("to stderr ", workers)), 1);
      EXPECT_EQ(lines.size(), 2u);  // and the line that was no message
    }
  }
  expect_no_children();
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Local, ALineWithoutItsEndIsNotLost) {
  const LocalResult result = run(shell(1, "printf '{\"a\": 1}' >&3; printf end >&2"));
  EXPECT_EQ(result.messages.at(0).at(0), (nlohmann::json{{"a", 1}}));
  EXPECT_EQ(result.lines.at(0), std::vector<std::string>{"end"});
}

TEST(Local, TheSecretIsNotInTheArgumentsAndNoDescriptorIsInherited) {
  const LocalResult result = run(shell(1,
                                       "tr '\\0' ' ' </proc/$$/cmdline | grep -c -- $RIPIENO_TOKEN >&2;"
                                       "echo ${#RIPIENO_TOKEN} >&2; exec ls /proc/self/fd >&2"));
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.lines.at(0), (std::vector<std::string>{"0", "64", "0", "1", "2", "3", "4"}));  // ls reads by 4
}

TEST(Local, AProgramThatIsNotThereIsNamed) {
  LocalJob job;
  job.workers = 2;
  job.command = {"/no/such/program"};
  const LocalResult result = run(job);
  EXPECT_EQ(result.error, "cannot run '/no/such/program': No such file or directory");
  EXPECT_EQ(result.kind, ErrorKind::usage);
  expect_no_children();
}

TEST(Local, AnAddressThatCannotBeHadIsNamed) {
  LocalJob job = shell(2, "exit 0");
  job.listen = "192.0.2.1:0";  // of nobody (RFC 5737)
  const LocalResult result = run(job);
  EXPECT_EQ(result.kind, ErrorKind::network);
  EXPECT_NE(result.error.find("192.0.2.1"), std::string::npos) << result.error;
}

TEST(Local, OneWorkerAloneNeedsNoNetwork) {
  LocalJob job = self(1, "steps");
  job.listen = "192.0.2.1:0";
  EXPECT_EQ(run(job).error, "");
  EXPECT_EQ(run(shell(1, "[ -z \"$RIPIENO_RENDEZVOUS\" ]")).error, "");
}

TEST(Local, AnExitCodeOfAWorkersOwnIsPassedOn) {
  // Rank 0, which lost it, may well be seen to end first, in whatever way its program ends then.
  for (const std::string end : {"exit 1", "kill -ABRT $$"}) {
    LocalJob job = shell(2,
                         "if [ $RIPIENO_RANK = 1 ]; then sleep 0.05; exit 42; fi;"
                         "echo '{\"type\": \"lost-peer\", \"loss\": {\"rank\": 1, \"how\": \"ended\"}}' >&3; " +
                             end);
    job.on_output = [](int, const std::string&) {};
    try {
      run_local(job);
      ADD_FAILURE() << "went well";
    } catch (const WorkerExited& exited) {
      EXPECT_EQ(exited.code(), 42);
      EXPECT_EQ(exited.kind(), ErrorKind::peer);
      EXPECT_STREQ(exited.what(), "rank 1 exited with code 42");
    }
  }
}

TEST(Local, SoManyWorkersAsThereAreDescriptorsFor) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{40, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(run(shell(16, "exit 0")).error, "");  // the soft limit is raised
  const pid_t strict = fork();
  if (strict == 0) {  // a hard limit stays
    const rlimit hard{64, 64};
    setrlimit(RLIMIT_NOFILE, &hard);
    const LocalResult result = run(shell(16, "exit 0"));
    _exit(result.kind == ErrorKind::io && result.error.find("16 workers") == 0 &&
                  result.error.find("limit is 64") != std::string::npos
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(strict, &status, 0), strict);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Local, WorkersHaveTheJobsVariables) {
  LocalJob job = shell(1, "echo $OMP_NUM_THREADS >&2");
  job.variables = {{"OMP_NUM_THREADS", "3"}};
  EXPECT_EQ(run(job).lines.at(0), std::vector<std::string>{"3"});
}

TEST(Local, AnInterruptedLauncherEndsItsWorkers) {
  LocalJob job = shell(2, "echo '{}' >&3; sleep 100");
  job.on_message = [&](int rank, const nlohmann::json&) {
    if (rank == 1) kill(getpid(), SIGTERM);
  };
  try {
    run_local(job);
    FAIL() << "was not interrupted";
  } catch (const Interrupted& interrupted) {
    EXPECT_EQ(interrupted.signal(), SIGTERM);
  }
  expect_no_children();
}

TEST(Local, AnErrorOfTheListenerEndsTheWorkers) {
  LocalJob job = shell(2, "echo '{}' >&3; sleep 100");
  job.on_message = [](int, const nlohmann::json&) { fail(ErrorKind::io, "the disk is full"); };
  EXPECT_EQ(run(job).error, "the disk is full");
  expect_no_children();
}

TEST(Local, WhatItWasStartedToIgnoreEndsNobody) {
  ::signal(SIGHUP, SIG_IGN);  // as nohup does
  const LocalResult result = run(shell(2, "kill -HUP $PPID; kill -HUP $$; echo '{\"alive\": true}' >&3"));
  ::signal(SIGHUP, SIG_DFL);
  EXPECT_EQ(result.error, "");
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(result.messages.at(rank).at(0).at("alive"), true);
}

TEST(Local, AKilledLauncherLeavesNoWorker) {
  expect_to_die_with_the_launcher(shell(2, "echo '{\"process\": '$$'}' >&3; exec sleep 100"));
}

TEST(Local, RealWorkersMeetAndAddUp) {
  const LocalResult result = run(self(4, "sum"));
  EXPECT_EQ(result.error, "");
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(result.messages.at(rank).at(0).at("sum"), 0 + 1 + 2 + 3);
}

TEST(Local, WorkersWithDifferentRecipesAreAMismatch) {
  const LocalResult result = run(self(3, "mismatch"));
  EXPECT_EQ(result.kind, ErrorKind::mismatch);
  EXPECT_NE(result.error.find("another recipe"), std::string::npos) << result.error;
}

TEST(Local, TheLostWorkerIsNamedNotThoseWhoLostIt) {
  EXPECT_EQ(run(self(3, "lost")).error, "rank 2 was killed by signal 9 (Killed)");
  const LocalResult data = run(self(3, "data"));
  EXPECT_EQ(data.error, "rank 2: broken data");
  EXPECT_EQ(data.kind, ErrorKind::data);
}

TEST(Local, WhoIsDoneWithItsStepsMayLeaveAtOnce) {
  for (int job = 0; job < 20; ++job) {
    EXPECT_EQ(run(self(std::array{2, 6, 8}[job % 3], job % 5 ? "steps" : "steps over tcp")).error, "") << "job " << job;
  }
}

/// Four steps of an own loop: a number goes to rank 0 and back to all, and many are added up. Nothing is waited for at
/// the end.
Task<> steps(transport::Endpoint* endpoint) {
  std::vector<float> numbers(10, 1);
  float one = 1;
  const transport::Message star{{observe::Purpose::control, 0}, "sum", DType::fp32, 1},
      all{{}, "two-phase", DType::fp32, 10};
  const ConstBytes out = std::as_bytes(std::span(&one, 1));
  const Bytes in = std::as_writable_bytes(std::span(&one, 1));
  for (int step = 0; step < 4; ++step) {
    for (int peer = 1; peer < endpoint->size() && endpoint->rank() == 0; ++peer)
      co_await endpoint->receive(peer, star, in);
    for (int peer = 1; peer < endpoint->size() && endpoint->rank() == 0; ++peer)
      co_await endpoint->send(peer, star, out);
    if (endpoint->rank() > 0) co_await endpoint->send(0, star, out);
    if (endpoint->rank() > 0) co_await endpoint->receive(0, star, in);
    if (endpoint->find_engine("two-phase", transport::Collective::all_reduce, all.type))
      co_await endpoint->run_engine(transport::Collective::all_reduce, all, NumberSpan(numbers));
  }
}

void run_steps(Placement place, bool shared_memory) {
  place.shared_memory = shared_memory;
  const transport::Cluster cluster = join(place);
  cluster.runtime->spawn("steps", steps(cluster.endpoint.get()));
  cluster.runtime->run();
}

/// The worker: sends its rank to all others and adds theirs to its own.
Task<> work(Runtime* runtime, Placement place, std::string what, Control* control) {
  rendezvous::Meeting meeting;
  meeting.address = place.rendezvous;
  meeting.token = place.token;
  meeting.rank = place.rank;
  meeting.world_size = place.world_size;
  meeting.digest = what == "mismatch" ? place.rank : 0;
  std::vector<std::optional<asio::ip::tcp::socket>> sockets = co_await rendezvous::meet(*runtime, meeting);
  const std::shared_ptr<transport::Endpoint> endpoint =
      transport::tcp_endpoint(*runtime, place.rank, std::move(sockets), {});
  if (what == "lost" && place.rank == 2) raise(SIGKILL);
  if (what == "data" && place.rank == 2) {
    // The others hear of it before the launcher does.
    endpoint->abort(0, {0, 1, 2}, std::make_exception_ptr(Error(ErrorKind::data, "broken data")));
    co_await runtime->sleep(std::chrono::milliseconds(200));
    fail(ErrorKind::data, "broken data");
  }
  float mine = static_cast<float>(place.rank), sum = mine;
  const transport::Message message{{}, "sum", DType::fp32, 1};
  for (int peer = 0; peer < place.world_size; ++peer) {
    const ConstBytes bytes = std::as_bytes(std::span(&mine, 1));
    if (peer != place.rank) co_await endpoint->send(peer, message, bytes);
  }
  for (int peer = 0; peer < place.world_size; ++peer) {
    const NumberSpan into(std::span(&sum, 1));
    if (peer != place.rank) co_await endpoint->receive(peer, message, into, numeric::Reduce::add);
  }
  control->send({{"type", "sum"}, {"sum", sum}});
}

/// What this process is: for nursery_test.cpp.
/// A forked process is shown with the environment of what it was forked from.
bool began_as_nursery() {
  std::ifstream environment("/proc/self/environ");
  for (std::string line; std::getline(environment, line, '\0');) {
    if (line == "RIPIENO_NURSERY=1") return true;
  }
  return false;
}

nlohmann::json describe_process(int rank) {
  std::vector<int> descriptors;
  for (int fd = 0; fd < 100; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) descriptors.push_back(fd);
  }
  int death_signal = 0;
  prctl(PR_GET_PDEATHSIG, &death_signal);
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  const auto threads = std::distance(begin(tasks), end(tasks));
  return {{"rank", rank},
          {"process", getpid()},
          {"parent", getppid()},
          {"group", getpgid(0)},
          {"descriptors", descriptors},
          {"input", std::filesystem::read_symlink("/proc/self/fd/0").string()},
          {"word", variable("RIPIENO_TEST_WORD").value_or("")},
          {"nursery", variable("RIPIENO_NURSERY").value_or("")},
          {"forked", began_as_nursery()},
          {"threads", threads},
          {"arguments", arguments},
          {"death_signal", death_signal}};
}

int worker(const std::string& what) {
  const Placement place = placement();
  Control control(place.control_fd);
  try {
    if (what == "place" || what == "threads" || what == "sleeps" || what == "loads") {
      control.send(describe_process(place.rank));
      std::cerr << "error line of " << place.rank << "\n";
      if (what == "sleeps") sleep(100);
      return 0;
    }
    if (what.rfind("steps", 0) == 0) {
      run_steps(place, what == "steps");
      return 0;
    }
    const std::unique_ptr<Runtime> runtime = real_runtime(1);
    runtime->spawn("worker", work(runtime.get(), place, what, &control));
    runtime->run();
    return 0;
  } catch (const Error& error) {
    control.failed(error);
    return static_cast<int>(error.kind());
  }
}

}  // namespace
}  // namespace ripieno::launch

int main(int argc, char** argv) {
  ripieno::launch::arguments.assign(argv + 1, argv + argc);
  if (argc == 3 && std::string(argv[2]) == "threads") std::thread([] { sleep(100); }).detach();
  if (argc == 3 && std::string(argv[2]) == "loads") sleep(2);
  ripieno::launch::serve_as_nursery();
  if (argc == 3 && std::string(argv[1]) == "worker") return ripieno::launch::worker(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
