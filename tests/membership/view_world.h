// A world of seats (membership/view.h) in which everything happens in any order that channels allow, and all the worlds
// that it can become. What a seat is, what it is told and what it then does are interned, so that each step of a seat
// is taken once, and a world is a few numbers.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ripieno/core/error.h"
#include "tests/membership/view_keys.h"

namespace ripieno::testing {

/// What may happen, each at any time.
struct Chances {
  int deaths = 0;
  int suspicions = 0;  ///< of a seat that lives and is heard
  int cuts = 0;        ///< of the way from one seat to another, for good
};

struct Exploration {
  std::size_t worlds = 0, steps = 0, ends = 0;
  std::string violation;           ///< "": there is none
  std::vector<std::string> trail;  ///< what leads to it
};

class ViewWorlds {
 public:
  static constexpr int most_seats = 4;

  ViewWorlds(int seats, bool has_witness, Chances chances)
      : size_(seats), has_witness_(has_witness), chances_(chances) {
    require(seats <= most_seats, "a world of ", seats, " seats");
  }

  /// All worlds, from the first view of all seats on; fewer if there is a violation. `about`: so many are expected.
  Exploration explore(std::size_t about) {
    seen_.reserve(about);
    World world;
    Seats all;
    for (int seat = 0; seat < size_; ++seat) all.push_back(seat);
    for (int seat = 0; seat < size_; ++seat) {
      const SeatInWorld one{first_view(seat, all, has_witness_), {}};
      world.seats[at(seat)] = seats_.id(one, key(one));
      world.alive |= 1u << seat;
    }
    world.witness = witnesses_.id(Voter(), key(Voter()));
    for (auto& channel : world.channels) channel = channels_.id({}, "");
    world.deaths = static_cast<std::uint8_t>(chances_.deaths);
    world.suspicions = static_cast<std::uint8_t>(chances_.suspicions);
    world.cuts_left = static_cast<std::uint8_t>(chances_.cuts);
    visit(world);
    return std::move(result_);
  }

 private:
  struct Told {
    int to;
    Id message;
  };
  struct Outcome {
    Id seat;
    std::vector<Told> says;
    bool takes;
  };
  using Channel = std::vector<Id>;  // messages, the next first
  static constexpr int witness_place = most_seats, places = most_seats + 1;
  static constexpr std::uint8_t most_quiet_ticks = 20;

  struct World {
    std::array<Id, most_seats> seats{};
    Id witness = 0;
    std::array<Id, places * places> channels{};              // from * places + to
    std::uint32_t alive = 0, left = 0;                       // bits: seats
    std::uint32_t undetected = 0, unsuspected = 0, cut = 0;  // bits: one * most_seats + other
    std::uint8_t deaths = 0, suspicions = 0, cuts_left = 0, quiet_ticks = 0;
  };
  static_assert(std::has_unique_object_representations_v<World>);

  static std::size_t at(int seat) { return static_cast<std::size_t>(seat); }
  static std::size_t lane(int from, int to) {
    const auto place = [](int seat) { return seat == witness_seat ? witness_place : seat; };
    return at(place(from) * places + place(to));
  }
  static std::uint32_t pair(int one, int other) { return 1u << (one * most_seats + other); }
  static bool is_alive(const World& world, int seat) { return (world.alive >> seat & 1) != 0; }
  const ViewState& state(const World& world, int seat) const { return seats_[world.seats[at(seat)]].state; }

  Id id_of(const Channel& channel) {
    return channels_.id(channel, {reinterpret_cast<const char*>(channel.data()), channel.size() * sizeof(Id)});
  }

  // Steps.
  void say(World& world, int from, const Told& told) {
    const bool is_cut = from != witness_seat && told.to != witness_seat && (world.cut & pair(from, told.to)) != 0;
    if (is_cut || (told.to != witness_seat && !is_alive(world, told.to))) return;
    Id& channel = world.channels[lane(from, told.to)];
    if (told.to != witness_seat && is_void(state(world, told.to), from, messages_[told.message])) return;
    Channel longer = channels_[channel];
    longer.push_back(told.message);
    channel = id_of(longer);
  }
  const Outcome& outcome(Id seat, ViewInput::What what, int other, Id message) {
    const std::uint64_t input =
        std::uint64_t{message} << 8 | static_cast<std::uint64_t>(other + 1) << 4 | static_cast<std::uint64_t>(what);
    const auto [place, is_new] = outcomes_.try_emplace(std::uint64_t{seat} << 40 ^ input);
    if (!is_new) return place->second;
    SeatInWorld next = seats_[seat];
    ViewInput told{what, other, {}};
    if (what == ViewInput::What::said || what == ViewInput::What::heard) told.message = messages_[message];
    Outcome& made = place->second;
    for (const ViewOutput& output : step(next.state, told)) {
      if (output.what == ViewOutput::What::say)
        made.says.push_back({output.seat, messages_.id(output.message, key(output.message))});
      made.takes = made.takes || output.what == ViewOutput::What::take;
      if (output.what == ViewOutput::What::take) next.taken[output.view.number] = output.view.seats;
    }
    made.seat = seats_.id(next, key(next));
    return made;
  }
  void act(World& world, int seat, ViewInput::What what, int other = 0, Id message = 0) {
    if (!is_alive(world, seat)) return;
    const Outcome& made = outcome(world.seats[at(seat)], what, other, message);
    world.seats[at(seat)] = made.seat;
    for (const Told& told : made.says) say(world, seat, told);
    for (int from = witness_seat; from < size_; ++from) drop_void(world, from, seat);
    if (made.takes) check_taken(world, seat);
    if (!state(world, seat).has_left) return;
    world.left |= 1u << seat;
    end_of(world, seat);
  }
  /// What is void now is void when it arrives: worlds that differ in that alone are one.
  void drop_void(World& world, int from, int to) {
    Id& channel = world.channels[lane(from, to)];
    Channel left = channels_[channel];
    const ViewState& receiver = state(world, to);
    std::erase_if(left, [&](Id message) { return is_void(receiver, from, messages_[message]); });
    if (left.size() < channels_[channel].size()) channel = id_of(left);
  }
  void check_taken(const World& world, int seat) {
    const SeatInWorld& own = seats_[world.seats[at(seat)]];
    const View& view = own.state.view;
    const bool is_in = std::find(view.seats.begin(), view.seats.end(), seat) != view.seats.end();
    if (!is_in) result_.violation = text("seat ", seat, " takes ", describe(view));
    for (int other = 0; other < size_; ++other) {
      if (!is_alive(world, other)) continue;
      for (const auto& [number, seats] : seats_[world.seats[at(other)]].taken) {
        const auto mine = own.taken.find(number);
        if (mine != own.taken.end() && mine->second != seats) {
          result_.violation = text("seat ", seat, " takes ", describe({number, mine->second}), ", seat ", other, " ",
                                   describe({number, seats}));
        }
      }
    }
  }
  void deliver(World& world, int from, int to) {
    Id& channel = world.channels[lane(from, to)];
    const Channel& all = channels_[channel];
    const Id message = all.front();
    channel = id_of(Channel(all.begin() + 1, all.end()));
    if (to != witness_seat) return act(world, to, ViewInput::What::said, from, message);
    Voter voter = witnesses_[world.witness];
    const auto answer = voter.answer(messages_[message]);
    world.witness = witnesses_.id(voter, key(voter));
    if (answer) say(world, witness_seat, {from, messages_.id(*answer, key(*answer))});
  }
  /// Its process ends, which others learn later.
  void end_of(World& world, int seat) {
    world.alive &= ~(1u << seat);
    const Id none = channels_.id({}, "");
    for (int other = witness_seat; other < size_; ++other) world.channels[lane(other, seat)] = none;
    for (int other = 0; other < size_; ++other) {
      world.undetected &= ~pair(seat, other);
      world.unsuspected &= ~pair(seat, other);
      if (other != seat && is_alive(world, other)) world.undetected |= pair(other, seat);
    }
  }
  void cut(World& world, int from, int to) {
    --world.cuts_left;
    world.cut |= pair(from, to);
    world.channels[lane(from, to)] = channels_.id({}, "");
    world.unsuspected |= pair(to, from);
  }
  /// Where nothing is under way, all hear each other, and time passes.
  void pass_time(World& world) {
    ++world.quiet_ticks;
    for (int seat = 0; seat < size_; ++seat) {
      for (int other = 0; other < size_; ++other) {
        const bool hears = other != seat && is_alive(world, other) && (world.cut & pair(other, seat)) == 0;
        if (!hears) continue;
        const ViewMessage beat{ViewWord::stop, state(world, other).view.number};
        act(world, seat, ViewInput::What::heard, other, messages_.id(beat, key(beat)));
      }
    }
    for (int seat = 0; seat < size_; ++seat) act(world, seat, ViewInput::What::tick);
  }

  // Exploration.
  bool is_new(const World& world) {
    const auto* words = reinterpret_cast<const std::uint32_t*>(&world);
    std::uint64_t one = 0x9E3779B97F4A7C15, other = 0x2545F4914F6CDD1D;
    for (std::size_t i = 0; i < sizeof world / sizeof *words; ++i) {
      one = (one ^ words[i]) * 0xFF51AFD7ED558CCD;
      one ^= one >> 32;
      other = (other + words[i]) * 0xC4CEB9FE1A85EC53;
      other ^= other >> 29;
    }
    return seen_.insert({one, other}).second;
  }
  template <class Change>
  void go(const World& world, const Change& change, const std::function<std::string()>& what) {
    if (!result_.violation.empty()) return;
    World next = world;
    change(next);
    ++result_.steps;
    if (result_.violation.empty()) visit(next);
    if (!result_.violation.empty()) result_.trail.insert(result_.trail.begin(), what());
  }
  void visit(const World& world) {
    if (!is_new(world)) return;
    ++result_.worlds;
    bool is_quiet = true;
    for (int from = witness_seat; from < size_; ++from) {
      for (int to = witness_seat; to < size_; ++to) {
        const Channel& channel = channels_[world.channels[lane(from, to)]];
        if (channel.empty()) continue;
        is_quiet = false;
        const Id message = channel.front();
        go(
            world, [&](World& next) { deliver(next, from, to); },
            [&] { return text(name(messages_[message].word), " from ", from, " to ", to); });
      }
    }
    for (int one = 0; one < size_; ++one) {
      for (int other = 0; other < size_; ++other) is_quiet = visit_pair(world, one, other) && is_quiet;
      if (world.deaths == 0 || !is_alive(world, one) || std::popcount(world.alive) == 1) continue;
      const auto die = [&](World& next) {
        --next.deaths;
        end_of(next, one);
      };
      go(world, die, [&] { return text("seat ", one, " dies"); });
    }
    if (is_quiet) end(world);
  }
  /// What may happen between two seats. Returns whether nothing must.
  bool visit_pair(const World& world, int one, int other) {
    if (one == other) return true;
    bool is_quiet = true;
    const auto told = [&](std::uint32_t World::*pending, ViewInput::What what, const char* words) {
      if ((world.*pending & pair(one, other)) == 0) return;
      is_quiet = false;
      const auto change = [&](World& next) {
        next.*pending &= ~pair(one, other);
        act(next, one, what, other);
      };
      go(world, change, [&] { return text("seat ", one, words, other); });
    };
    told(&World::undetected, ViewInput::What::died, " learns of the death of ");
    told(&World::unsuspected, ViewInput::What::silent, " no longer hears ");
    if (!is_alive(world, one) || !is_alive(world, other)) return is_quiet;
    if (world.suspicions > 0) {
      const auto change = [&](World& next) {
        --next.suspicions;
        act(next, one, ViewInput::What::silent, other);
      };
      go(world, change, [&] { return text("seat ", one, " suspects ", other); });
    }
    if (world.cuts_left > 0)
      go(
          world, [&](World& next) { cut(next, one, other); }, [&] { return text("a cut from ", one, " to ", other); });
    return is_quiet;
  }
  void end(const World& world) {
    const std::string amiss = unsettled(world);
    if (!result_.violation.empty()) return;
    if (!amiss.empty() && world.quiet_ticks < most_quiet_ticks)
      return go(
          world, [&](World& next) { pass_time(next); }, [] { return std::string("time passes"); });
    ++result_.ends;
    result_.violation = amiss;
    if (amiss.empty()) result_.violation = unjust(world);
  }
  /// What keeps the seats from going on; "": nothing does.
  std::string unsettled(const World& world) const {
    for (int seat = 0; seat < size_; ++seat) {
      if (!is_alive(world, seat)) continue;
      const ViewState& own = state(world, seat);
      if (own.has_stopped) return text("seat ", seat, " has stopped in ", describe(own.view));
      for (const int other : own.view.seats) {
        if (!is_alive(world, other))
          return text("seat ", seat, " is in ", describe(own.view), ", seat ", other, " is not");
        if (state(world, other).view != own.view)
          return text("seat ", seat, " is in ", describe(own.view), ", seat ", other, " in ",
                      describe(state(world, other).view));
        if ((world.cut & pair(seat, other)) != 0) return text("seat ", other, " cannot hear ", seat);
      }
    }
    return "";
  }
  /// Who left without need; "": nobody.
  std::string unjust(const World& world) const {
    const int left = std::popcount(world.left);
    const int deaths = chances_.deaths - world.deaths;
    const int troubles = chances_.suspicions - world.suspicions + chances_.cuts - world.cuts_left;
    if (troubles == 0 && left > 0) return text(left, " seats have left, and all hear each other");
    const bool can_lose_one = size_ > 2 || has_witness_;
    if (deaths == 0 && troubles == 1 && left > 1 && can_lose_one) return text(left, " seats have left over one");
    return "";
  }

  struct Hash128 {
    std::uint64_t one, other;
    bool operator==(const Hash128&) const = default;
  };
  struct FirstHalf {
    std::size_t operator()(const Hash128& hash) const { return hash.one; }
  };

  const int size_;
  const bool has_witness_;
  const Chances chances_;
  Interned<SeatInWorld> seats_;
  Interned<ViewMessage> messages_;
  Interned<Voter> witnesses_;
  Interned<Channel> channels_;
  std::unordered_map<std::uint64_t, Outcome> outcomes_;
  std::unordered_set<Hash128, FirstHalf> seen_;
  Exploration result_;
};

}  // namespace ripieno::testing
