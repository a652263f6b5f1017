// A round of a schedule in words.
#include <algorithm>
#include <cmath>

#include "ripieno/core/error.h"
#include "ripieno/report/format.h"
#include "ripieno/report/schedule_page.h"

namespace ripieno::report {
namespace {

using Transfer = SchedulePicture::Transfer;
using Round = std::vector<Transfer>;

constexpr std::size_t most_pairs = 8;  // named in a sentence

bool all_of(const Round& round, const auto& what) { return std::all_of(round.begin(), round.end(), what); }

/// "1 chunk (345 kB)", "chunk 2 (345 kB)", "the whole buffer (1.38 MB)".
std::string load_of(const SchedulePicture& picture, const Round& round) {
  const std::size_t all = picture.chunks.size();
  const auto width = [all](const Transfer& one) { return (one.last + all - one.first) % all + 1; };
  const auto [least, most] = std::minmax_element(
      round.begin(), round.end(), [](const Transfer& a, const Transfer& b) { return a.bytes < b.bytes; });
  std::string bytes = format_bytes(most->bytes);
  if (format_bytes(least->bytes) != bytes) bytes = format_bytes(least->bytes) + " to " + bytes;
  const std::size_t chunks = width(round[0]);
  const bool is_whole = chunks == all,
             is_same = all_of(round, [&](const Transfer& one) { return one.first == round[0].first; });
  if (!all_of(round, [&](const Transfer& one) { return width(one) == chunks; })) return text("chunks (", bytes, ")");
  if (is_whole) return text("the whole buffer (", bytes, ")");
  if (!is_same) return text(chunks, chunks == 1 ? " chunk (" : " chunks (", bytes, ")");
  return text(chunks == 1 ? text("chunk ", round[0].first) : text("chunks ", round[0].first, " to ", round[0].last),
              " (", bytes, ")");
}

/// The distance from sender to receiver, if all ranks send and it is the same for all; else 0.
int shift_of(const SchedulePicture& picture, const Round& round) {
  const int ranks = picture.ranks;
  const auto shift = [ranks](const Transfer& one) { return (one.to - one.from + ranks) % ranks; };
  if (static_cast<int>(round.size()) != ranks ||
      !all_of(round, [&](const Transfer& one) { return shift(one) == shift(round[0]); }))
    return 0;
  return shift(round[0]);
}

/// Whether the first rank of every node sends to the first rank of the next.
bool is_among_first_ranks(const SchedulePicture& picture, const Round& round) {
  const int nodes = (picture.ranks + picture.per_node - 1) / picture.per_node;
  return picture.per_node > 1 && static_cast<int>(round.size()) == nodes && all_of(round, [&](const Transfer& one) {
           return one.from % picture.per_node == 0 && one.to % picture.per_node == 0 &&
                  one.to / picture.per_node == (one.from / picture.per_node + 1) % nodes;
         });
}

bool is_in_pairs(const Round& round) {
  return all_of(round, [&](const Transfer& one) {
    return std::any_of(round.begin(), round.end(),
                       [&](const Transfer& other) { return other.from == one.to && other.to == one.from; });
  });
}

/// "0 → 1, 2 → 3", or "0 and 1, 2 and 3" if each pair is named once.
std::string pairs_of(const Round& round, const char* between, bool once) {
  std::string all;
  std::size_t named = 0;
  for (const Transfer& one : round) {
    if (once && one.from > one.to) continue;
    if (++named > most_pairs) return all + ", ...";
    all += text(named == 1 ? "" : ", ", one.from, between, one.to);
  }
  return all;
}

/// The verb after "which", for one receiver or several.
std::string what_receivers_do(const SchedulePicture& picture, const Round& round, bool one) {
  std::string adds = one ? "adds it" : "add it",
              keeps = text(one ? "keeps it" : "keep it", picture.sums ? ": it is the sum of all" : "");
  if (all_of(round, [](const Transfer& each) { return each.adds; })) return adds;
  if (all_of(round, [](const Transfer& each) { return !each.adds; })) return keeps;
  return adds + ", or " + keeps;
}

std::string who_sends(const SchedulePicture& picture, const Round& round) {
  const std::string load = load_of(picture, round);
  const std::size_t ranks = static_cast<std::size_t>(picture.ranks);
  if (round.size() == 1) {
    return text("rank ", round[0].from, " sends ", load, " to rank ", round[0].to, ", which ",
                what_receivers_do(picture, round, true));
  }
  if (ranks > 2 && round.size() == ranks * (ranks - 1)) {
    return text("every rank sends ", load, " to every other rank, which ", what_receivers_do(picture, round, true));
  }
  if (const int shift = shift_of(picture, round);
      shift > 0 && (shift == 1 || 2 * shift != picture.ranks) && picture.ranks > 2) {
    const bool left = 2 * shift > picture.ranks;
    const int places = left ? picture.ranks - shift : shift;
    const std::string to = places == 1 ? text("its ", left ? "left" : "right", " neighbour")
                                       : text("the rank ", places, " places to its ", left ? "left" : "right");
    return text("every rank sends ", load, " to ", to, ", which ", what_receivers_do(picture, round, true));
  }
  if (is_among_first_ranks(picture, round)) {
    return text("each node's first rank sends ", load, " to that of the next node, which ",
                what_receivers_do(picture, round, true));
  }
  if (is_in_pairs(round)) {
    return text("ranks send to each other in pairs (", pairs_of(round, " and ", true), "), each ", load,
                " to its partner, which ", what_receivers_do(picture, round, true));
  }
  return text(round.size(), " ranks send ", load, " each, ", pairs_of(round, " → ", false), "; the receivers ",
              what_receivers_do(picture, round, false));
}

/// How much of the promised content has been reached.
std::string reached(const SchedulePicture& picture, std::size_t round) {
  std::size_t done = 0, all = 0;
  for (std::size_t rank = 0; rank < picture.goal.size(); ++rank) {
    for (std::size_t chunk = 0; chunk < picture.chunks.size(); ++chunk) {
      const std::uint64_t goal = picture.goal[rank][chunk];
      all += goal != 0;
      done += goal != 0 && picture.held[round][rank][chunk] == goal;
    }
  }
  const char* const what = picture.sums ? "the sum of all" : "in place";
  if (done == all) return text(" Then ", picture.outcome, ".");
  if (done == 0) return text(" No chunk is ", what, " yet.");
  return text(" Then ", done, " of all ", all, " chunks ", done == 1 ? "is " : "are ", what, ".");
}

}  // namespace

std::string round_sentence(const SchedulePicture& picture, std::size_t round) {
  const std::size_t rounds = picture.rounds.size();
  require(round <= rounds, "round ", round, " of ", rounds);
  if (picture.ranks == 1) return "One rank has nothing to send.";
  if (round == 0) {
    return text("Start: ", picture.start, ". ", rounds, rounds == 1 ? " round follows." : " rounds follow.");
  }
  return text("Round ", round, " of ", rounds, ": ", who_sends(picture, picture.rounds[round - 1]), ".",
              reached(picture, round));
}

}  // namespace ripieno::report
