// Holds the ranks of a loop to equally many steps. A rank whose loop has ended tells all others after how many; a rank
// that takes a further step, or ends after fewer, gets Error(mismatch) with both numbers instead of waiting for what
// never comes. No rank ends before it has heard of all others. While it listens, a rank also learns at once that
// another has broken off, whatever its strategy waits for.
#pragma once

#include <vector>

#include "ripieno/collective/communicator.h"
#include "ripieno/core/async.h"

namespace ripieno::loop {

class Finishes {
 public:
  /// Every rank makes it. `unit`: steps of this rank that are compared as one, 0: each rank has its own number; `name`:
  /// of such a unit, "step".
  Finishes(collective::Communicator comm, std::uint64_t unit, std::string name);

  /// Listens to the other ranks. An error is theirs, or that ranks differ; `on_error` must end `comm`.
  void listen(std::function<void(std::exception_ptr)> on_error);
  /// This rank begins step number `step`, from 1. Throws Error(mismatch).
  void steps(std::uint64_t step);
  /// This rank's loop has ended; returns once all have, unless each has its own number. Throws Error(mismatch).
  Task<> finish();
  /// Returns once nothing listens any more: when all have ended, or after an abort of the communicator.
  Task<> silent();

 private:
  Task<> hear(int rank, std::function<void(std::exception_ptr)> on_error);
  void compare(int rank) const;
  transport::Message message() const;

  collective::Communicator comm_;
  std::uint64_t unit_;
  std::string name_;
  transport::Channel channel_;
  std::uint64_t steps_ = 0;  // begun
  bool finished_ = false;
  std::vector<std::int64_t> heard_;  // of each rank; below 0: nothing yet
  std::vector<Flight> listening_;
};

}  // namespace ripieno::loop
