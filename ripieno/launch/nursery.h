// A process that has loaded the workers' program, and forks the workers. Loading takes each a fifth of a second of a
// core (LibTorch's own start), which a fork saves.
//
// The nursery is started as a worker would be. Its main() calls serve_as_nursery(), which forks a worker for every
// request and returns in each, so that the worker goes on as if it had been started by itself. Workers are children of
// the launcher, not of the nursery.
#pragma once

#include <functional>

#include "ripieno/launch/process.h"

namespace ripieno::launch {

class Nursery {
 public:
  /// `command` is of a program that calls serve_as_nursery(); its processes get the caller's environment changed by
  /// `variables`. Errors: those of start_process().
  Nursery(const std::vector<std::string>& command, const std::vector<std::pair<std::string, std::string>>& variables);
  /// Workers go on.
  ~Nursery();
  Nursery(const Nursery&) = delete;
  Nursery& operator=(const Nursery&) = delete;

  /// As start_process(), with further variables, and with what the program itself has opened by then. Calls `look`,
  /// which may throw, now and then while it waits. nullopt if the nursery cannot: its program does not serve, has other
  /// threads by then, or has ended.
  std::optional<Process> start(const std::vector<std::pair<std::string, std::string>>& variables, Pipes pipes,
                               const ProcessPlace& place, const std::function<void()>& look);

 private:
  void end_unwanted();

  std::vector<std::pair<std::string, std::string>> variables_;
  Descriptor socket_;
  Process process_;
  int was_subreaper_ = 0;
  bool is_asked_ = false;  ///< for a worker, and has not answered
  pid_t begun_ = -1;       ///< that worker, once it is forked
};

/// To be called first in main(). Returns at once in a process that is no nursery, and in every worker that is forked;
/// ends the nursery itself once the launcher wants no more.
void serve_as_nursery();

}  // namespace ripieno::launch
