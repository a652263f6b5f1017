// Keeps the view of one rank (view.h) up to date: says beats to the other members, notices whom it does not hear, and
// agrees with the others on the next view when somebody is missed. It takes part whatever the rank's coroutines wait
// for, as its runtime answers.
//
// Detection. A member that has said nothing for `silence` is silent, which may be wrong: it is heard again if it says
// something before the next view is decided. Only died() makes a seat dead. A rank that finds that it has itself been
// kept from running (stopped, or on a machine that had no time for it) takes nobody for silent until it has listened
// again.
//
// Messages: beats to all other members every `beat`, and those of view.h.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "ripieno/core/async.h"
#include "ripieno/membership/view.h"

namespace ripieno::membership {

struct ViewKeeperOptions {
  Duration beat = std::chrono::milliseconds(100);
  Duration silence = std::chrono::seconds(1);
  Duration patience = std::chrono::milliseconds(300);  ///< for answers, before it asks again
  bool has_witness = false;
};

/// Used on the runtime's thread alone.
class ViewKeeper : public std::enable_shared_from_this<ViewKeeper> {
 public:
  /// What it needs of the transport, as long as it lives. `tell`: a note to a seat, or to the witness, that may be lost
  /// with the connection.
  struct Ways {
    std::function<void(int seat, const std::string& note)> tell;
    std::function<void(Duration when, Callback)> call_at;
    std::function<void(const View& view)> taken;  ///< at once, before anything else happens; may be empty
  };

  ViewKeeper(Runtime& runtime, int seat, Seats seats, ViewKeeperOptions options, Ways ways);
  /// Begins to say beats and to listen.
  void start();

  /// A note of another seat's, or of the witness's, which may say anything.
  void hear(int seat, std::string_view note);
  /// The connection to the seat has ended.
  void lose(int seat);
  /// The seat's process has ended, for certain.
  void died(int seat);
  /// Its own rank ends: it says nothing any more, and who waits for a view gets an error.
  void end();

  const View& view() const { return state_.view; }
  bool has_left() const { return state_.has_left; }

  /// The first view after this number. Error(peer): this rank has left, which is the error's loss; or it ends.
  Task<View> after(std::uint32_t number) { return after(shared_from_this(), number); }

 private:
  static Task<View> after(std::shared_ptr<ViewKeeper> keeper, std::uint32_t number);
  void feed(const ViewInput& input);
  void look();
  bool is_member(int seat) const;

  Runtime& runtime_;
  const ViewKeeperOptions options_;
  const Ways ways_;
  ViewState state_;
  std::map<int, Duration> heard_;  ///< when each was heard last
  std::map<int, bool> lost_;       ///< whose connections have ended
  Duration looked_{0}, ticked_{0};
  std::shared_ptr<Event> next_;  ///< set with the next view
  bool has_ended_ = false;
};

/// What the witness does with a note of a seat's: its answer, if there is one.
std::optional<std::string> answer_of_witness(Voter& witness, std::string_view note);

}  // namespace ripieno::membership
