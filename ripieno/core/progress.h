// Work that goes on while its caller does something else: an exchange beside the computing of gradients, several
// exchanges at once.
//
//   Progress progress(runtime);
//   Work sum = progress.submit("the sum", all_reduce(comm, numbers));   // from any thread
//   ...                                                                 // on the caller's own thread
//   sum.wait();                                                         // throws what the task threw
//
// A thread of the library's moves the work on. Who waits moves it on himself, since a hop from one thread to another
// costs 4 to 55 us: a task that is submitted and waited for at once never leaves the caller's thread. At any time one
// thread drives the runtime, which is "the runtime's thread" meanwhile.
//
// In virtual time there is no thread: tasks run in line, where the runtime is driven.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "ripieno/core/runtime.h"

namespace ripieno {

class Progress;

/// A task that was submitted. Copies are the same task's.
class Work {
 public:
  Work() = default;

  /// Whether it has ended, well or not. Never blocks.
  bool test() const;
  /// Returns once it has ended. Throws its error; Error(usage) where there is no task, or its Progress is gone. From
  /// any thread but from within a coroutine of the runtime.
  void wait() const;
  /// Of a task that has ended badly; else null.
  std::exception_ptr error() const;

 private:
  friend class Progress;
  struct State;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

class Progress {
 public:
  /// From now on nobody else runs the runtime, which outlives this.
  explicit Progress(Runtime& runtime);
  /// Leaves tasks that have not ended where they are.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Begins a task. Tasks begin in the order in which they were submitted; of one communicator's operations that must
  /// be the same order on all its ranks. In real time from any thread.
  Work submit(std::string name, Task<> task);
  /// Submits and waits.
  void run(std::string name, Task<> task);

 private:
  friend class Work;
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace ripieno
