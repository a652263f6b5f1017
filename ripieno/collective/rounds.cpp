#include "ripieno/collective/rounds.h"

#include <algorithm>
#include <set>

namespace ripieno::collective {
namespace {

std::vector<RoundTransfer> transfers_of(const Route& route, World world, std::size_t elements, int k) {
  std::vector<RoundTransfer> all;
  for (int rank = 0; rank < world.ranks; ++rank) {
    const Step step = route.step(rank, world, elements, k);
    const Transfers& sends = step.sends;
    for (std::size_t i = 0; i < sends.size(); ++i) {
      if (sends[i].range.size() == 0) continue;
      const Step other = route.step(sends[i].peer, world, elements, k);
      const Transfer* const in = counterpart(rank, sends, i, other.receives);
      all.push_back({rank, sends[i].peer, sends[i].range, in ? in->range : sends[i].range, sends[i].how});
    }
  }
  return all;
}

/// Whether a rank begins with a part of the buffer that the collective reads.
bool begins_with(const Route& route, World world, std::size_t elements, int rank, Range cell) {
  const Range own = chunk(elements, world.ranks, rank);
  switch (route.collective) {
    case transport::Collective::all_gather:
    case transport::Collective::gather:
      return own.begin <= cell.begin && cell.end <= own.end;
    case transport::Collective::broadcast:
    case transport::Collective::scatter:
      return rank == world.root;
    default:
      return true;
  }
}

}  // namespace

const Transfer* counterpart(int rank, const Transfers& own, std::size_t i, const Transfers& theirs) {
  std::size_t before = 0;
  for (std::size_t j = 0; j < i; ++j) before += own[j].peer == own[i].peer;
  for (const Transfer& one : theirs) {
    if (one.peer == rank && before-- == 0) return &one;
  }
  return nullptr;
}

std::vector<std::size_t> schedule_cuts(const Route& route, World world, std::size_t elements) {
  std::set<std::size_t> at{0, elements};
  std::vector<std::pair<Range, Range>> moved;  // the source and destination of transfers to another place
  for (int k = 0; k < route.steps(world); ++k) {
    for (int rank = 0; rank < world.ranks; ++rank) {
      const Step step = route.step(rank, world, elements, k);
      for (const Transfer& in : step.receives) at.insert({in.range.begin, in.range.end});
      for (std::size_t i = 0; i < step.sends.size(); ++i) {
        const Range from = step.sends[i].range;
        at.insert({from.begin, from.end});
        if (route.collective != transport::Collective::all_to_all) continue;
        const Step other = route.step(step.sends[i].peer, world, elements, k);
        const Transfer* const in = counterpart(rank, step.sends, i, other.receives);
        if (in && from != in->range && from.size() == in->range.size()) moved.emplace_back(from, in->range);
      }
    }
  }
  for (int i = 0; i < world.ranks && route.collective != transport::Collective::all_reduce; ++i) {
    const Range own = route.collective == transport::Collective::all_to_all ? block_of(elements, world.ranks, i)
                                                                            : chunk(elements, world.ranks, i);
    at.insert({own.begin, own.end});
  }
  // A cut in one of them is a cut in the other.
  for (std::size_t before = 0; before != at.size();) {
    before = at.size();
    for (const auto& [from, to] : moved) {
      for (const auto& [a, b] : {std::pair(from, to), std::pair(to, from)}) {
        std::vector<std::size_t> inside(at.lower_bound(a.begin), at.upper_bound(a.end));
        for (const std::size_t cut : inside) at.insert(b.begin + (cut - a.begin));
      }
    }
  }
  return {at.begin(), at.end()};
}

ScheduleRounds schedule_rounds_of(const Route& route, World world, std::size_t elements) {
  require(world.ranks <= most_set_ranks, "the rounds of ", world.ranks, " ranks; a set holds up to ", most_set_ranks);
  ScheduleRounds all;
  const std::vector<std::size_t> cuts = schedule_cuts(route, world, elements);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) all.cells.push_back({cuts[i], cuts[i + 1]});
  for (int k = 0; k < route.steps(world); ++k) {
    const std::vector<RoundTransfer> now = transfers_of(route, world, elements, k);
    if (now.empty()) continue;
    all.rounds.push_back(now);
  }
  all.held.emplace_back();
  for (int rank = 0; rank < world.ranks; ++rank) {
    all.held[0].emplace_back(all.cells.size(), RankSet{0});
    for (std::size_t cell = 0; cell < all.cells.size(); ++cell) {
      if (begins_with(route, world, elements, rank, all.cells[cell])) all.held[0].back()[cell] = RankSet{1} << rank;
    }
  }
  for (const std::vector<RoundTransfer>& round : all.rounds) {
    const auto before = all.held.back();  // sends carry the content before the round
    auto after = before;
    for (const auto& [from, to, range, into, how] : round) {
      const auto first = std::lower_bound(cuts.begin(), cuts.end(), range.begin) - cuts.begin();
      const auto place = std::lower_bound(cuts.begin(), cuts.end(), into.begin) - cuts.begin();
      for (std::size_t cell = static_cast<std::size_t>(first), target = static_cast<std::size_t>(place);
           cell < all.cells.size(); ++cell, ++target) {
        if (all.cells[cell].end > range.end) break;
        const RankSet arriving = before[static_cast<std::size_t>(from)][cell];
        RankSet& there = after[static_cast<std::size_t>(to)][target];
        there = how == numeric::Reduce::add ? there | arriving : arriving;
      }
    }
    all.held.push_back(std::move(after));
  }
  return all;
}

}  // namespace ripieno::collective
