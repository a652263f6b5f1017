// Jobs of small shell scripts, or of this program itself run as `launch_test worker WHAT`.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

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

}  // namespace ripieno::testing
