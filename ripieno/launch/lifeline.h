// A connection from another host's agent to the launcher, along which nothing is said. It breaks when the launcher
// ends, and when its host has had no power or no network for 45 s: the kernel asks after it, even if the launcher is
// stopped or waits for its terminal. The end of ssh on the agent's side would be noticed after hours.
#pragma once

#include <memory>
#include <string>

#include "ripieno/core/descriptor.h"
#include "ripieno/core/runtime.h"

namespace ripieno::launch {

/// The launcher's ends of all agents' lifelines.
class Lifelines {
 public:
  /// Listens on host:port, for agents that know the token. Error(network): it cannot.
  Lifelines(Runtime& runtime, const std::string& listen, const std::string& token);
  /// All break.
  ~Lifelines();
  Lifelines(const Lifelines&) = delete;
  Lifelines& operator=(const Lifelines&) = delete;

  int port() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// The agent's end; reading from it waits until it breaks. Error(network), within seconds, with the address and the
/// reason: the launcher cannot be reached there.
Descriptor reach_launcher(const std::string& address, const std::string& token);

}  // namespace ripieno::launch
