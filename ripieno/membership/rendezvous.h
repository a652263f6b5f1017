// The launcher's side of how workers find each other. Every worker says who it is and where it listens; when all have
// come, each is told where the others are (meet.h is the workers' side). A stranger is put out and forgotten. Whoever
// knows the token but does not fit the job ends it, for everybody, with an error that names the rank and both values.
#pragma once

#include <memory>
#include <string>

#include "ripieno/core/runtime.h"
#include "ripieno/membership/greeting.h"

namespace ripieno::membership {

class Rendezvous {
 public:
  /// Listens at once. `listen` is host:port, port 0 for one that the kernel picks; `token` is a random_token().
  /// Error(network) where the address cannot be had.
  Rendezvous(Runtime& runtime, const std::string& listen, const std::string& token, int world_size,
             Duration timeout = std::chrono::seconds(60));
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// "127.0.0.1:41873"
  std::string address() const;

  /// Ends when every worker has been told where the others are, or after close(); waits for the first without limit.
  /// Error(mismatch): a worker has another world size or recipe (digest), a rank out of range, or one that is taken.
  /// Error(peer): a worker was lost before all had come, or some have not come within `timeout` of the first.
  Task<> serve();

  /// Gives up, without an error.
  void close();

 private:
  struct State;
  static Task<> serve(std::shared_ptr<State> state);
  static Task<> watch(std::shared_ptr<State> state, int rank);
  std::shared_ptr<State> state_;
};

}  // namespace ripieno::membership
