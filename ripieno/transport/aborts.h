// Which scopes of an endpoint have ended (Endpoint::abort), and why: what its links and its engine share.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ripieno/transport/endpoint.h"

namespace ripieno::transport {

/// The end of a scope on this rank.
struct Abort {
  Scope scope = 0;
  std::exception_ptr error;  ///< of every operation in it
  int origin = 0;            ///< the rank that gave up first
  std::string reason;        ///< its message, as others are told it
};

/// Bytes of a reason.
inline constexpr std::size_t most_reason = 1000;

/// What others are told of an error of `rank`: its first line, without "rank N: ", cut to most_reason bytes.
std::string reason_of(std::exception_ptr error, int rank);

/// Error(peer) of a rank that is told: "rank 0: rank 2 gave up: its message".
std::exception_ptr gave_up(int rank, int origin, std::string_view reason);

/// All on the runtime's thread.
class Aborts {
 public:
  using Watcher = std::function<void(const Abort&)>;

  explicit Aborts(int rank) : rank_(rank) {}

  /// Has `watcher` called with every scope that ends.
  void watch(Watcher watcher) { watchers_.push_back(std::move(watcher)); }

  /// Null where the scope goes on.
  const Abort* find(Scope scope) const;
  /// The error of operations in it; null where it goes on.
  std::exception_ptr error(Scope scope) const {
    const Abort* const abort = find(scope);
    return abort ? abort->error : nullptr;
  }

  /// Ends it, by this rank's own error. The first call counts, of this and of hear().
  void end(Scope scope, std::exception_ptr error);
  /// Ends it, because `peer` has told that rank `origin` gave up.
  void hear(Scope scope, int peer, int origin, std::string_view reason);
  /// Whether `peer` has neither told nor been told of the end of the scope; now it has.
  bool must_tell(Scope scope, int peer);

 private:
  struct Ended {
    Abort abort;
    std::set<int> know;  ///< ranks
  };
  void end(Abort abort);

  const int rank_;
  std::map<Scope, Ended> ended_;
  std::vector<Watcher> watchers_;
};

}  // namespace ripieno::transport
