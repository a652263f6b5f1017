#include "ripieno/membership/view.h"

#include <algorithm>

#include "ripieno/core/error.h"

namespace ripieno::membership {
namespace {

bool has(const Seats& seats, int seat) { return std::binary_search(seats.begin(), seats.end(), seat); }

void add(Seats& seats, int seat) {
  const auto at = std::lower_bound(seats.begin(), seats.end(), seat);
  if (at == seats.end() || *at != seat) seats.insert(at, seat);
}

void drop(Seats& seats, int seat) { std::erase(seats, seat); }

void put(Seats& seats, int seat, bool is_in) { is_in ? add(seats, seat) : drop(seats, seat); }

/// Who is left if, of two that do not hear each other, one goes: whoever is in most such pairs, of equals the highest.
Seats without_pairs_apart(Seats seats, const std::map<int, ViewMessage>& promises) {
  const auto are_apart = [&](int one, int other) {
    return has(promises.at(one).unheard, other) || has(promises.at(other).unheard, one);
  };
  for (;;) {
    int worst = 0;
    std::ptrdiff_t most = 0;
    for (const int one : seats) {
      const auto pairs =
          std::count_if(seats.begin(), seats.end(), [&](int other) { return other != one && are_apart(one, other); });
      if (pairs > 0 && pairs >= most) {
        most = pairs;
        worst = one;
      }
    }
    if (most == 0) return seats;
    drop(seats, worst);
  }
}

/// What one seat does.
class SeatAct {
 public:
  explicit SeatAct(ViewState& state) : s(state) {}

  std::vector<ViewOutput> take(const ViewInput& input) {
    using What = ViewInput::What;
    if (s.has_left) return {};
    switch (input.what) {
      case What::heard:
        drop(s.silent, input.seat);
        s.is_late = s.is_late || input.message.number > s.view.number;
        break;
      case What::silent:
        if (is_other(input.seat) && !has(s.silent, input.seat)) {
          add(s.silent, input.seat);
          stop();
        }
        break;
      case What::died:
        died(input.seat);
        break;
      case What::said:
        if (!is_void(s, input.seat, input.message)) hear(input.seat, input.message);
        break;
      case What::tick:
        tick();
        break;
    }
    advance();
    return std::move(outputs);
  }

 private:
  std::uint32_t next() const { return s.view.number + 1; }
  bool is_other(int seat) const { return seat != s.seat && has(s.view.seats, seat); }
  bool is_missed(int seat) const { return has(s.dead, seat) || has(s.silent, seat) || has(s.deaf, seat); }
  bool asks_witness() const { return s.has_witness && s.view.seats.size() % 2 == 0; }

  Seats unheard() const {
    Seats all;
    std::set_union(s.silent.begin(), s.silent.end(), s.dead.begin(), s.dead.end(), std::back_inserter(all));
    return all;
  }

  void say(int seat, ViewMessage message) {
    message.unheard = unheard();
    message.dead = s.dead;
    outputs.push_back({ViewOutput::What::say, seat, std::move(message), {}});
  }
  void say_to_others(const ViewMessage& message) {
    for (const int seat : s.view.seats) {
      if (seat != s.seat && !has(s.dead, seat)) say(seat, message);
    }
  }

  void died(int seat) {
    if (seat != s.seat) add(s.dead, seat);
  }

  void hear(int from, const ViewMessage& message) {
    for (const int seat : message.dead) died(seat);
    if (has(s.dead, from)) return;
    if (is_other(from)) {
      drop(s.silent, from);
      put(s.deaf, from, has(message.unheard, s.seat));
    }
    if (message.word == ViewWord::decided) {
      take_view({message.number, message.seats});
    } else if (message.number < next()) {  // it was decided without the sender's knowing
      if (from != witness_seat) say(from, decided());
    } else if (message.number > next()) {  // others have decided without this seat's knowing
      if (from == witness_seat) s.is_late = true;
      if (from != witness_seat) say(from, {ViewWord::stop, next()});
    } else {
      take_part(from, message);
    }
  }

  void take_part(int from, const ViewMessage& message) {
    s.highest = std::max(s.highest, message.ballot);
    switch (message.word) {
      case ViewWord::stop:
        s.has_stopped = true;
        break;
      case ViewWord::ask:
      case ViewWord::propose:
        s.has_stopped = true;
        if (const auto answer = s.voter.answer(message)) say(from, *answer);
        break;
      case ViewWord::promise:
        if (!s.proposed) s.promises[from] = message;
        break;
      case ViewWord::vote:
        if (s.proposed) add(s.votes, from);
        break;
      case ViewWord::refuse:  // at the next tick it asks with a higher ballot
      case ViewWord::decided:
        break;
    }
  }

  ViewMessage decided() const { return {ViewWord::decided, s.view.number, {}, s.view.seats, {}, {}, {}}; }

  /// Because of whom it does not hear. Whoever leads asks instead.
  void stop() {
    s.has_stopped = true;
    if (!leads()) say_to_others({ViewWord::stop, next()});
  }

  void tick() {
    if (!s.has_stopped) return;
    ++s.waited;
    if (leads()) {
      ask();
    } else {
      say_to_others({ViewWord::stop, next()});
    }
    Seats reached = s.has_witness ? Seats{witness_seat} : Seats{};
    for (const int seat : s.view.seats) {
      if (seat == s.seat || !is_missed(seat)) reached.push_back(seat);
    }
    if (s.waited >= s.patience && (s.is_late || !can_decide(s, reached))) leave();
  }

  /// Whether it is the highest that it does not miss.
  bool leads() const {
    return std::all_of(s.view.seats.begin(), s.view.seats.end(),
                       [&](int seat) { return seat <= s.seat || is_missed(seat); });
  }

  /// What has become possible.
  void advance() {
    while (!s.has_left) {
      const bool misses_one =
          std::any_of(s.view.seats.begin(), s.view.seats.end(), [&](int seat) { return is_missed(seat); });
      s.has_stopped = s.has_stopped || misses_one;  // all others are told of the dead, too
      if (!s.has_stopped) return;
      if (s.ballot.round == 0 && leads()) ask();
      if (s.ballot.round > 0 && !s.proposed && leads() && may_propose()) propose();
      if (!s.proposed || !can_decide(s, s.votes)) return;
      decide();
    }
  }

  void ask() {
    s.highest.round += 1;
    s.ballot = {s.highest.round, s.seat};
    s.promises.clear();
    s.proposed.reset();
    s.votes.clear();
    const ViewMessage question{ViewWord::ask, next(), s.ballot};
    say_to_others(question);
    if (asks_witness()) say(witness_seat, question);
    s.promises[s.seat] = s.voter.answer(question).value();
  }

  bool may_propose() const {
    Seats voters;
    for (const auto& [voter, promise] : s.promises) voters.push_back(voter);
    const auto has_promised = [&](int seat) { return is_missed(seat) || has(voters, seat); };
    return std::all_of(s.view.seats.begin(), s.view.seats.end(), has_promised) && can_decide(s, voters);
  }

  void propose() {
    s.proposed = choice();
    const ViewMessage proposal{ViewWord::propose, next(), s.ballot, *s.proposed};
    say_to_others(proposal);
    if (asks_witness()) say(witness_seat, proposal);
    if (s.voter.answer(proposal)->word == ViewWord::vote) add(s.votes, s.seat);
  }

  /// What has been voted for may have been decided, unless nobody who is in it lives: then nobody goes on with it.
  Seats choice() {
    s.promises[s.seat].unheard = unheard();
    const auto is_dead = [&](int seat) { return has(s.dead, seat); };
    const Proposal* highest = nullptr;
    Seats here;
    for (const auto& [voter, promise] : s.promises) {
      const Proposal& voted = promise.voted;
      const bool counts = !std::all_of(voted.seats.begin(), voted.seats.end(), is_dead);
      if (counts && (!highest || voted.ballot > highest->ballot)) highest = &voted;
      if (voter != witness_seat && (voter == s.seat || !is_missed(voter))) here.push_back(voter);
    }
    return highest ? highest->seats : without_pairs_apart(here, s.promises);
  }

  void decide() {
    const View old = s.view;
    const Seats seats = *s.proposed;
    for (const int seat : old.seats) {
      if (seat != s.seat && !has(s.dead, seat)) say(seat, {ViewWord::decided, next(), {}, seats, {}, {}, {}});
    }
    take_view({next(), seats});
  }

  void take_view(View view) {
    s.view = std::move(view);
    s.has_stopped = s.is_late = false;
    s.waited = 0;
    s.voter = {next(), {}, {}};
    s.ballot = s.highest = {};
    s.promises.clear();
    s.proposed.reset();
    s.votes.clear();
    if (!has(s.view.seats, s.seat)) return leave();
    s.deaf.clear();  // who still does not hear this seat says so again
    std::erase_if(s.silent, [&](int seat) { return !has(s.view.seats, seat); });
    outputs.push_back({ViewOutput::What::take, s.seat, {}, s.view});
    if (!s.silent.empty()) stop();
  }

  void leave() {
    s.has_left = true;
    outputs.push_back({ViewOutput::What::leave, s.seat, {}, {}});
  }

  ViewState& s;
  std::vector<ViewOutput> outputs;
};

}  // namespace

const char* name(ViewWord word) {
  constexpr const char* names[] = {"stop", "ask", "promise", "refuse", "propose", "vote", "decided"};
  return names[static_cast<std::size_t>(word)];
}

std::optional<ViewMessage> Voter::answer(const ViewMessage& message) {
  const bool asks = message.word == ViewWord::ask;
  if (!asks && message.word != ViewWord::propose) return std::nullopt;
  if (message.number < number) return ViewMessage{ViewWord::refuse, number};
  if (message.number > number) *this = {message.number, {}, {}};
  if (message.ballot < promised) return ViewMessage{ViewWord::refuse, number, promised};
  promised = message.ballot;
  if (!asks) voted = {message.ballot, message.seats};
  ViewMessage answer{asks ? ViewWord::promise : ViewWord::vote, number, promised};
  if (asks) answer.voted = voted;
  return answer;
}

ViewState first_view(int seat, Seats seats, bool has_witness) {
  require(has(seats, seat), "seat ", seat, " is in no view of its own");
  ViewState state;
  state.seat = seat;
  state.view.seats = std::move(seats);
  state.has_witness = has_witness;
  state.voter.number = 1;
  return state;
}

bool is_void(const ViewState& state, int from, const ViewMessage& message) {
  if (has(state.dead, from)) return true;
  switch (message.word) {
    case ViewWord::decided:
      return message.number <= state.view.number;
    case ViewWord::promise:
    case ViewWord::vote:
      return message.number <= state.view.number || message.ballot != state.ballot;
    case ViewWord::refuse:
      return message.number <= state.view.number ||
             (message.number == state.view.number + 1 && message.ballot <= state.highest);
    case ViewWord::stop:
    case ViewWord::ask:
    case ViewWord::propose:
      return false;
  }
  return false;
}

std::vector<ViewOutput> step(ViewState& state, const ViewInput& input) { return SeatAct(state).take(input); }

bool can_decide(const ViewState& state, const Seats& voters) {
  const Seats& seats = state.view.seats;
  if (std::all_of(seats.begin(), seats.end(), [&](int seat) { return has(state.dead, seat) || has(voters, seat); }))
    return true;
  const bool counts_witness = state.has_witness && seats.size() % 2 == 0;
  const auto in_favour = std::count_if(voters.begin(), voters.end(), [&](int voter) {
    return voter == witness_seat ? counts_witness : has(seats, voter);
  });
  return 2 * static_cast<std::size_t>(in_favour) > seats.size() + (counts_witness ? 1 : 0);
}

std::string describe(const View& view) {
  std::string words = text("view ", view.number, " of");
  for (std::size_t i = 0; i < view.seats.size(); ++i)
    words += text(i == 0 ? " " : i + 1 == view.seats.size() ? " and " : ", ", view.seats[i]);
  return words;
}

}  // namespace ripieno::membership
