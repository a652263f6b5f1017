// A route's schedule as a page to step through: who sends what to whom, round by round, and whose numbers each part of
// each rank's buffer then holds. One self-contained HTML file. The picture is given as numbers (made from
// collective/rounds.h).
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
    std::size_t first = 0,
                last = 0;  ///< the sender's chunks, inclusive; last < first: from `first` to the end, then from the
                           ///< start to `last`
    std::size_t into = 0;  ///< the receiver's first chunk
    double bytes = 0;
    bool adds = true;  ///< else the receiver replaces its numbers
  };
  std::string name, title, source;  ///< of the collective and its route
  std::string buffer;               ///< what is exchanged, in a few words
  std::string start, outcome;       ///< the state at the start and at the end: "every rank holds the sum of all"
  bool sums = true;                 ///< numbers are added up; else they are only moved
  int ranks = 1, per_node = 1;      ///< ranks 0 .. per_node - 1 are on the first node, and so on
  int root = -1;                    ///< the root rank; -1: none
  std::vector<double> chunks;       ///< bytes of each part of the buffer
  std::vector<std::vector<Transfer>> rounds;
  /// held[k][rank][chunk]: whose contributions a chunk holds after k rounds, bit r for rank r; 0: undefined content.
  /// One entry more than rounds.
  std::vector<std::vector<std::vector<std::uint64_t>>> held;
  /// goal[rank][chunk]: the required contributions at the end; 0: nothing is promised.
  std::vector<std::vector<std::uint64_t>> goal;
  /// Total costs: names and values.
  std::vector<std::pair<std::string, std::string>> totals;
};

/// More ranks could not be seen.
inline constexpr int most_drawn_ranks = 16;

/// Describes a round (from 1; 0: the start) and the state after it, in words.
std::string round_sentence(const SchedulePicture& picture, std::size_t round);

/// For up to most_drawn_ranks ranks; Error(internal) for more. #round=3 in the address opens that round, #theme=dark
/// sets the theme.
std::string schedule_page(const SchedulePicture& picture);

}  // namespace ripieno::report
