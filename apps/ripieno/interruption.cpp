#include "apps/ripieno/interruption.h"

#include <signal.h>

#include "ripieno/launch/process.h"

namespace ripieno::program {

Interruption::Interruption(Runtime& runtime, bool has_launcher, std::function<void(int)> asked)
    : signals_(runtime.context(), launch::save_signal), asked_(std::move(asked)) {
  for (const int signal : launch::ending_signals()) {
    if (!has_launcher || signal != SIGTERM) signals_.add(signal);
  }
  wait();
}

Interruption::~Interruption() {
  asio::error_code ignored;
  signals_.cancel(ignored);
}

void Interruption::wait() {
  signals_.async_wait([this, alive = std::weak_ptr(alive_)](asio::error_code error, int signal) {
    if (!error && alive.lock()) take(signal);
  });
}

void Interruption::take(int signal) {
  if (!came_.insert(signal).second) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
  if (came_.size() == 1) asked_(signal);
  wait();
}

}  // namespace ripieno::program
