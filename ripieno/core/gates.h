// Gates between an exchange that replaces parameters and a forward pass that uses them: one gate for each bucket. A
// user of a bucket waits while its gate is closed, as a coroutine or by blocking a compute thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "ripieno/core/async.h"

namespace ripieno {

class Gates {
 public:
  /// All gates begin open.
  Gates(Runtime& runtime, std::size_t count) : runtime_(runtime), events_(count), closed_(count) {}

  std::size_t size() const { return closed_.size(); }

  /// From the runtime's thread. Closing a closed gate or opening an open one changes nothing.
  void close(std::size_t gate);
  void open(std::size_t gate);
  /// Opens all gates for good and ends all waits, when the job cannot go on.
  void give_up();

  /// Returns once the gate is open. From the runtime's thread.
  Task<> passed(std::size_t gate);
  /// As passed(), but blocks; returns whether the gate was closed. From any other thread.
  bool wait(std::size_t gate);
  /// From any thread.
  bool any_closed();

 private:
  Runtime& runtime_;
  std::vector<std::shared_ptr<Event>> events_;  // of closed gates
  std::mutex mutex_;                            // guards the members below
  std::condition_variable opened_;
  std::vector<bool> closed_;
  bool given_up_ = false;
};

}  // namespace ripieno
