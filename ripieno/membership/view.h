// Views: who trains together, and how those that are left after a loss agree on that. A state machine without a clock,
// a socket or a thread: step() takes what has happened and says what to do.
//
// Seats are numbered once and never given again. A view has a number and the seats in it. View n + 1 is decided by
// votes of the seats of view n:
//
// 1. Stop. A seat that does not hear another tells all that it wants a new view, and whom it misses. Of the dead all
// are
//    told without that.
// 2. Ask. The highest seat that does not miss all higher ones leads (the bully's rule). With a ballot higher than any
// it
//    has seen it asks all for their promise not to vote for a lower one. A promise says what its voter has voted for,
//    and whom it does not hear.
// 3. Propose. Once all that it hears have promised, and they can decide, it proposes what has the highest ballot among
//    what they have voted for, or else a new view: all that have promised, but of two that do not hear each other only
//    one. A voter votes for it unless it has promised a higher ballot.
// 4. Decide. Once those that have voted can decide, it takes the view and tells all.
//
// Who can decide: more than half of the voters, which are the seats of the view, and the witness if these are an even
// number and there is one; or all seats of the view that are not dead, without the witness. Dead is only what is known
// to have ended: that a seat is silent never counts as that. So two deciding sets have a living seat in common, and
// what one has decided the other learns. Whoever a new view leaves out, or who cannot be one of a deciding set for some
// time, leaves. A leader that dies is one more loss; the next one asks what was promised before.
//
// Guarantees: seats that live never take different views of one number; a seat takes only views that it is in; numbers
// grow. If those that live hear each other in the end, and can decide, they take a view of just them.
//
// Messages, with m living seats after a death: 5 (m - 1), in five latencies.
//
// Sources: Lamport, "Paxos made simple", 2001 (ballots, promises); Garcia-Molina, "Elections in a distributed computing
// system", 1982 (who leads); Birman and Joseph, "Exploiting virtual synchrony", 1987 (views).
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ripieno::membership {

/// Ascending.
using Seats = std::vector<int>;

struct View {
  std::uint32_t number = 0;
  Seats seats;

  /// The highest seat.
  int leader() const { return seats.back(); }
  bool operator==(const View&) const = default;
};

/// The number of the witness among voters: of no seat.
inline constexpr int witness_seat = -1;

struct Ballot {
  std::uint32_t round = 0;  ///< 0: none
  int seat = witness_seat;  ///< whose
  auto operator<=>(const Ballot&) const = default;
};

/// A view that was proposed, and by which ballot.
struct Proposal {
  Ballot ballot;
  Seats seats;
  bool operator==(const Proposal&) const = default;
};

enum class ViewWord : std::uint8_t { stop, ask, promise, refuse, propose, vote, decided };
/// "stop", "ask", ...
const char* name(ViewWord word);

struct ViewMessage {
  ViewWord word = ViewWord::stop;
  std::uint32_t number = 0;  ///< of the view to decide; `decided`: of the one that is
  Ballot ballot;             ///< `refuse`: the one that was promised
  Seats seats;               ///< `propose`, `decided`: in the view
  Seats unheard, dead;       ///< whom the sender does not hear, and of whom it knows that they have ended
  Proposal voted;            ///< `promise`: what the sender has voted for
  bool operator==(const ViewMessage&) const = default;
};

/// What a voter must not forget of the decision that it takes part in.
struct Voter {
  std::uint32_t number = 0;
  Ballot promised;
  Proposal voted;

  /// The answer to `ask` or `propose`; nullopt for other words. For a later decision it forgets this one; an earlier
  /// one it refuses, with the number of its own.
  std::optional<ViewMessage> answer(const ViewMessage& message);
};

/// One seat.
struct ViewState {
  int seat = 0;
  View view;
  bool has_witness = false;
  int patience = 8;  ///< ticks without those that could decide

  bool has_stopped = false;  ///< wants a new view
  bool has_left = false;     ///< for good
  Seats silent;              ///< whom it has not heard lately
  Seats deaf;                ///< who say that they do not hear it
  Seats dead;
  Voter voter;
  int waited = 0;        ///< ticks since it has stopped
  bool is_late = false;  ///< others are in a later view

  // While it leads.
  Ballot ballot, highest;                    ///< its own, and the highest that it has seen
  std::map<int, ViewMessage> promises = {};  ///< by voter
  std::optional<Seats> proposed;
  Seats votes;

  bool operator==(const ViewState&) const = default;
};

/// `seat` of the first view, number 0, in which are all `seats`. `has_witness`: one can be asked.
ViewState first_view(int seat, Seats seats, bool has_witness);

struct ViewInput {
  enum class What : std::uint8_t {
    heard,   ///< something came from the seat; message.number, if it is known: of its view
    silent,  ///< nothing has come from it for too long, or its connection has ended
    died,    ///< its process has ended, for certain
    said,    ///< `message` came from it, or from the witness
    tick     ///< time has passed
  };
  What what = What::tick;
  int seat = 0;
  ViewMessage message = {};
};

struct ViewOutput {
  enum class What : std::uint8_t {
    say,   ///< `message` to the seat, or to the witness
    take,  ///< from now on it is in this view
    leave  ///< this seat is in no view any more: the others go on without it, or it cannot be one of a deciding set
  };
  What what = What::say;
  int seat = 0;
  ViewMessage message = {};
  View view = {};
};

/// Whether the message can change nothing, now or ever: its sender has ended, or it is of what is over.
bool is_void(const ViewState& state, int from, const ViewMessage& message);

std::vector<ViewOutput> step(ViewState& state, const ViewInput& input);

/// Whether these voters can decide the view after the state's.
bool can_decide(const ViewState& state, const Seats& voters);

/// For people: "view 3 of 0, 2 and 5".
std::string describe(const View& view);

}  // namespace ripieno::membership
