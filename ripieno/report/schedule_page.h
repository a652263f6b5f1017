// A route's schedule as a page that one steps through: who sends what to whom, round by round, and whose numbers each
// part of each rank's buffer then holds. One HTML file that needs nothing else. What is drawn comes as numbers
// (collective/rounds.h makes them).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ripieno::report {

struct SchedulePicture {
  /// One message of a round.
  struct Transfer {
    int from = 0, to = 0;
    std::size_t
        first = 0,
        last = 0;  ///< the sender's chunks, both included; last < first: from there to the end, and on from the start
    std::size_t into = 0;  ///< the first of the receiver's
    double bytes = 0;
    bool adds = true;  ///< else the receiver replaces what it had
  };
  std::string name, title, source;  ///< of the collective and its route
  std::string buffer;               ///< what is exchanged, in a few words
  std::string start, outcome;       ///< what holds at the start and in the end: "every rank holds the sum of all"
  bool sums = true;                 ///< numbers are added up; else each stays what it is
  int ranks = 1, per_node = 1;      ///< ranks 0 .. per_node - 1 are on the first node, and so on
  int root = -1;                    ///< the rank that all goes to, or comes from; -1: there is none
  std::vector<double> chunks;       ///< bytes of each part of the buffer
  std::vector<std::vector<Transfer>> rounds;
  /// held[k][rank][chunk]: whose contributions a chunk holds after k rounds, bit r for rank r; 0: nothing that counts.
  /// One more than rounds.
  std::vector<std::vector<std::vector<std::uint64_t>>> held;
  /// goal[rank][chunk]: what it is to hold in the end; 0: nothing is promised.
  std::vector<std::vector<std::uint64_t>> goal;
  /// What the whole costs: a name and its value each.
  std::vector<std::pair<std::string, std::string>> totals;
};

/// More would not be seen.
inline constexpr int most_drawn_ranks = 16;

/// What happens in a round (from 1; 0: the start), and what has been reached after it, in words.
std::string round_sentence(const SchedulePicture& picture, std::size_t round);

/// Of up to most_drawn_ranks ranks; Error(internal) for more. #round=3 in its address opens it there, #theme=dark says
/// which.
std::string schedule_page(const SchedulePicture& picture);

}  // namespace ripieno::report
