// Seats, messages and voters (membership/view.h) as numbers, each value once: worlds are compared by these.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>

#include "ripieno/membership/view.h"

namespace ripieno::testing {

using namespace membership;  // NOLINT

using Id = std::uint32_t;

/// The values of one type.
template <class Value>
class Interned {
 public:
  Id id(const Value& value, const std::string& key) {
    const auto [place, is_new] = ids_.emplace(key, static_cast<Id>(values_.size()));
    if (is_new) values_.push_back(value);
    return place->second;
  }
  const Value& operator[](Id id) const { return values_[id]; }

 private:
  std::unordered_map<std::string, Id> ids_;
  std::deque<Value> values_;
};

/// A seat, and the views that it has taken, by number.
struct SeatInWorld {
  ViewState state;
  std::map<std::uint32_t, Seats> taken;
};

// Keys: equal for what is equal.

inline void put(std::string& key, int number) { key += static_cast<char>(number); }
inline void put(std::string& key, const Seats& seats) {
  put(key, static_cast<int>(seats.size()));
  for (const int seat : seats) put(key, seat);
}
inline void put(std::string& key, const Ballot& ballot) {
  put(key, static_cast<int>(ballot.round));
  put(key, ballot.seat);
}
inline void put(std::string& key, const Proposal& proposal) {
  put(key, proposal.ballot);
  put(key, proposal.seats);
}
inline void put(std::string& key, const ViewMessage& message) {
  put(key, static_cast<int>(message.word));
  put(key, static_cast<int>(message.number));
  put(key, message.ballot);
  for (const Seats* seats : {&message.seats, &message.unheard, &message.dead}) put(key, *seats);
  put(key, message.voted);
}
inline void put(std::string& key, const Voter& voter) {
  put(key, static_cast<int>(voter.number));
  put(key, voter.promised);
  put(key, voter.voted);
}
template <class Value>
std::string key(const Value& value) {
  std::string key;
  put(key, value);
  return key;
}
inline std::string key(const SeatInWorld& seat) {
  const ViewState& s = seat.state;
  std::string key;
  for (const auto& [number, seats] : seat.taken) {
    put(key, static_cast<int>(number));
    put(key, seats);
  }
  put(key, s.has_left ? 1 : 0);
  if (s.has_left) return key;
  put(key, s.seat);
  put(key, static_cast<int>(s.view.number));
  put(key, s.view.seats);
  put(key, s.has_stopped ? 1 : 0);
  for (const Seats* seats : {&s.silent, &s.deaf, &s.dead, &s.votes}) put(key, *seats);
  put(key, s.voter);
  put(key, std::min(s.waited, s.patience));
  put(key, s.is_late ? 1 : 0);
  put(key, s.ballot);
  put(key, s.highest);
  put(key, static_cast<int>(s.promises.size()));
  for (const auto& [voter, promise] : s.promises) {
    put(key, voter);
    put(key, promise);
  }
  put(key, s.proposed ? 1 : 0);
  if (s.proposed) put(key, *s.proposed);
  return key;
}

}  // namespace ripieno::testing
