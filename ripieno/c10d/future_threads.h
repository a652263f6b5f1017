// Threads on which futures are completed, whose callbacks may do anything: compute, or wait for another operation. So
// they never run on the thread that moves messages, and each has a thread of its own as long as all others are busy.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ripieno::c10d {

class FutureThreads {
 public:
  FutureThreads() : state_(std::make_shared<State>()) {}
  ~FutureThreads() { close(); }
  FutureThreads(const FutureThreads&) = delete;
  FutureThreads& operator=(const FutureThreads&) = delete;

  /// Waits until all has run; what comes later does not run.
  void close();
  /// Runs `job`, which throws nothing, soon. From any thread.
  void run(std::function<void()> job);

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> jobs;
    std::size_t idle = 0;  ///< threads that wait for a job
    bool closed = false;
  };
  static void work(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
  std::vector<std::thread> threads_;
};

}  // namespace ripieno::c10d
