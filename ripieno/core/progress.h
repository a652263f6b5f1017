// Tasks that run while their caller does something else: an exchange while gradients are computed, several exchanges at
// once.
//
//   Progress progress(runtime);
//   Work sum = progress.submit("the sum", all_reduce(comm, numbers));   // from any thread
//   ...                                                                 // on the caller's own thread
//   sum.wait();                                                         // throws what the task threw
//
// A background thread of the library drives the tasks. A thread that waits drives them itself, since a hop from one
// thread to another costs 4 to 55 us: a task that is submitted and waited for at once never leaves the caller's thread.
// At any time one thread drives the runtime; that is "the runtime's thread" meanwhile.
//
// In virtual time there is no thread: tasks run on the thread that drives the runtime.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "ripieno/core/runtime.h"

namespace ripieno {

class Progress;

/// A handle to a submitted task; copies refer to the same task. An error that nobody has got from wait() or error()
/// when the last copy is gone is told in a line on standard error; only the first of a Progress, from which others may
/// follow.
class Work {
 public:
  Work() = default;

  /// Whether the task has ended, with or without an error. Never blocks.
  bool test() const;
  /// Returns once the task has ended. Throws its error, or Error(usage) if there is no task or its Progress is gone.
  /// From any thread, but not from a coroutine of the runtime.
  void wait() const;
  /// The error of a task that has ended with one; else null.
  std::exception_ptr error() const;

 private:
  friend class Progress;
  struct State;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

class Progress {
 public:
  /// From now on nobody else may run the runtime, which must outlive this object.
  explicit Progress(Runtime& runtime);
  /// Does not wait for tasks that have not ended.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Begins a task. Tasks begin in the order of submission; operations of one communicator must be submitted in the
  /// same order on all its ranks. In real time from any thread.
  Work submit(std::string name, Task<> task);
  /// submit() of a task that this thread waits for at once: no other thread is woken to drive it.
  Work begin(std::string name, Task<> task);
  /// begin(), and waits.
  void run(std::string name, Task<> task);
  /// run() on this thread from the task's beginning, unless other threads wait too: then one of them drives.
  void run_here(std::string name, Task<> task);

 private:
  friend class Work;
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace ripieno
