// The rendezvous, the launcher's side of how workers find each other (meet.h is the workers' side). Every worker says
// who it is and where it listens; when all have come, each is told where the others are. Strangers are ignored. A
// worker that knows the token but does not fit the job ends it for all, with an error that names the rank and both
// values.
#pragma once

#include <memory>
#include <string>

#include "ripieno/core/runtime.h"
#include "ripieno/rendezvous/greeting.h"

namespace ripieno::rendezvous {

class Rendezvous {
 public:
  /// Listens at once. `listen` is host:port, port 0 for one that the kernel picks; `token` is a random_token().
  /// Error(network): it cannot listen on the address.
  Rendezvous(Runtime& runtime, const std::string& listen, const std::string& token, int world_size,
             Duration timeout = std::chrono::seconds(60));
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// "127.0.0.1:41873"
  std::string address() const;

  /// Returns when every worker has been told where the others are, or after close(); waits for the first worker without
  /// limit. Error(mismatch): a worker has another world size or recipe (digest), or a rank that is out of range or
  /// taken. Error(peer): a worker was lost before all had come, or some have not come within `timeout` of the first.
  Task<> serve();

  /// Gives up, without an error.
  void close();

 private:
  struct State;
  static Task<> serve(std::shared_ptr<State> state);
  static Task<> watch(std::shared_ptr<State> state, int rank);
  std::shared_ptr<State> state_;
};

}  // namespace ripieno::rendezvous
