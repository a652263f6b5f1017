// Jobs of small shell scripts, or of this program itself run as `launch_test worker WHAT`.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "ripieno/launch/local.h"

namespace ripieno::testing {

/// What a run of run_local() gave.
struct LocalResult {
  std::string error;
  std::optional<ErrorKind> kind;
  std::map<int, std::vector<nlohmann::json>> messages;
  std::map<int, std::vector<std::string>> lines;
};

inline LocalResult run(launch::LocalJob job) {
  LocalResult result;
  auto on_message = std::exchange(job.on_message, nullptr);
  job.on_message = [&](int rank, const nlohmann::json& message) {
    result.messages[rank].push_back(message);
    if (on_message) on_message(rank, message);
  };
  job.on_output = [&](int rank, const std::string& line) { result.lines[rank].push_back(line); };
  try {
    launch::run_local(job);
  } catch (const Error& error) {
    result.error = error.what();
    result.kind = error.kind();
  }
  return result;
}

inline launch::LocalJob shell(int workers, const std::string& script) {
  launch::LocalJob job;
  job.workers = workers;
  job.command = {"/bin/sh", "-c", script};
  return job;
}

inline launch::LocalJob self(int workers, const std::string& what) {
  launch::LocalJob job;
  job.workers = workers;
  job.command = {"/proc/self/exe", "worker", what};
  return job;
}

inline std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// This process has no child, dead or alive.
inline void expect_no_children() {
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

/// Two workers, each of which says {"process": its id} and would then go on for long: they are killed with their
/// launcher.
inline void expect_to_die_with_the_launcher(launch::LocalJob job) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // so that the orphans become this process's children
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    job.on_message = [&](int, const nlohmann::json& message) {
      const pid_t pid = message.at("process").get<pid_t>();
      if (write(pipe_ends[1], &pid, sizeof pid) != sizeof pid) _exit(1);
    };
    launch::run_local(job);
    _exit(0);
  }
  pid_t workers[2];
  for (pid_t& worker : workers)
    ASSERT_EQ(read(pipe_ends[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  kill(launcher, SIGKILL);
  ASSERT_EQ(waitpid(launcher, nullptr, 0), launcher);
  for (const pid_t worker : workers) {
    int status = 0;
    ASSERT_EQ(waitpid(worker, &status, 0), worker);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  EXPECT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

}  // namespace ripieno::testing
