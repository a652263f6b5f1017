// Records which scopes of an endpoint have ended (Endpoint::abort), and why, and who is told of peers whose links have
// ended. The endpoint's links and engine share it. Notes travel in the same frames: those of an inquiry (inquiry.h),
// and of views (membership/view_keeper.h).
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ripieno/transport/endpoint.h"

namespace ripieno::transport {

/// The end of a scope on this rank.
struct Abort {
  Scope scope = 0;
  std::exception_ptr error;  ///< thrown by every operation in the scope
  int origin = 0;            ///< the rank that gave up first
  std::string reason;        ///< that rank's message, as sent to the others
  std::optional<Loss> loss;  ///< why it gave up, if it lost a rank
};

/// The most bytes of a reason.
inline constexpr std::size_t most_reason = 1000;

/// What is told in these scopes, of no communicator, ends nothing: it is a note, of an inquiry or of views.
inline constexpr Scope notes_scope = 0x6574'6f6e;  // "note"
inline constexpr Scope views_scope = 0x7377'6569;  // "iews"

class Inquiry;

/// Of `rank`, by its own error, whose first line is the reason, without "rank N: ", cut to most_reason bytes.
Abort own_abort(Scope scope, std::exception_ptr error, int rank);

/// What a rank that hears of an abort has lost: whom its origin has lost, or else the origin.
Loss passed_on(const std::optional<Loss>& loss, int origin);

/// The Error(peer) on a rank that hears of an abort: "rank 0: rank 2 gave up: its reason".
std::exception_ptr gave_up(int rank, const Abort& heard);

/// Used on the runtime's thread alone.
class Aborts {
 public:
  using Watcher = std::function<void(const Abort&)>;

  explicit Aborts(int rank) : rank_(rank) {}

  /// From now on calls `watcher` with every scope that ends.
  void watch(Watcher watcher) { watchers_.push_back(std::move(watcher)); }

  /// Null unless the scope has ended.
  const Abort* find(Scope scope) const;
  /// The error of operations in the scope; null unless it has ended.
  std::exception_ptr error(Scope scope) const {
    const Abort* const abort = find(scope);
    return abort ? abort->error : nullptr;
  }

  /// Ends the scope with this rank's own error. Only the first call of end() or hear() for a scope counts.
  void end(Scope scope, std::exception_ptr error);
  /// Who answers notes, for as long as it lives.
  void answer_by(std::weak_ptr<Inquiry> inquiry) { inquiry_ = std::move(inquiry); }
  /// Null: nobody does.
  std::shared_ptr<Inquiry> inquiry() const { return inquiry_.lock(); }

  using NoteListener = std::function<void(int peer, std::string_view note)>;
  /// Who gets notes of views. Until then they are dropped.
  void listen_to_views(NoteListener listener) { views_ = std::move(listener); }
  /// From now on called with each peer whose link ends, or has been given up.
  void watch_ends(std::function<void(int peer)> watcher) { end_watchers_.push_back(std::move(watcher)); }
  void link_ended(int peer) {
    for (const auto& watcher : end_watchers_) watcher(peer);
  }

  /// Ends the scope because `peer` says that rank `origin` gave up; or takes a note of `peer`'s. Needs no error.
  void hear(int peer, Abort heard);
  /// Whether `peer` still has to be told that the scope has ended. Marks it as told.
  bool must_tell(Scope scope, int peer);

 private:
  struct Ended {
    Abort abort;
    std::set<int> know;  ///< ranks that know of it
  };
  void end(Abort abort);

  const int rank_;
  std::map<Scope, Ended> ended_;
  std::vector<Watcher> watchers_;
  std::weak_ptr<Inquiry> inquiry_;
  NoteListener views_;
  std::vector<std::function<void(int peer)>> end_watchers_;
};

}  // namespace ripieno::transport
