// Signals that ask a rank to save and end. A second one of the same kind ends its process at once.
#pragma once

#include <asio/signal_set.hpp>
#include <functional>
#include <memory>
#include <set>

#include "ripieno/core/runtime.h"

namespace ripieno::program {

class Interruption {
 public:
  /// While it lives, calls `asked` on the runtime's thread with the first of these signals. SIGUSR1 is one of them
  /// (launch::save_signal); of those by which users end programs SIGTERM is none if a launcher of ours listens, which
  /// sends it to workers that are to end at once.
  Interruption(Runtime& runtime, bool has_launcher, std::function<void(int signal)> asked);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  void wait();
  void take(int signal);

  asio::signal_set signals_;
  std::function<void(int)> asked_;
  std::set<int> came_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ripieno::program
