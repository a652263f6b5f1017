#include "ripieno/collective/rounds.h"

#include <algorithm>
#include <set>

namespace ripieno {
namespace {

std::vector<RoundTransfer> transfers_of(const Route& route, World world, std::size_t elements, int k) {
  std::vector<RoundTransfer> all;
  for (int rank = 0; rank < world.ranks; ++rank) {
    const Step step = route.step(rank, world, elements, k);
    if (step.send && step.send->range.size() > 0) all.push_back({rank, step.send->peer, step.send->range, step.send->how});
  }
  return all;
}

}  // namespace

std::vector<std::size_t> schedule_cuts(const Route& route, World world, std::size_t elements) {
  std::set<std::size_t> at{0, elements};
  for (int rank = 0; rank < world.ranks; ++rank) {
    for (int k = 0; k < route.steps(world); ++k) {
      const Step step = route.step(rank, world, elements, k);
      for (const auto& transfer : {step.send, step.receive}) {
        if (transfer) at.insert({transfer->range.begin, transfer->range.end});
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
    if (all.rounds.empty() || !route.at_once) all.rounds.emplace_back();
    all.rounds.back().insert(all.rounds.back().end(), now.begin(), now.end());
  }
  all.held.emplace_back();
  for (int rank = 0; rank < world.ranks; ++rank) all.held[0].emplace_back(all.cells.size(), RankSet{1} << rank);
  for (const std::vector<RoundTransfer>& round : all.rounds) {
    const auto before = all.held.back();  // what is sent was there when the round began
    auto after = before;
    for (const auto& [from, to, range, how] : round) {
      for (std::size_t cell = 0; cell < all.cells.size(); ++cell) {
        if (all.cells[cell].begin < range.begin || all.cells[cell].end > range.end) continue;
        const RankSet arriving = before[static_cast<std::size_t>(from)][cell];
        RankSet& there = after[static_cast<std::size_t>(to)][cell];
        there = how == Reduce::add ? there | arriving : arriving;
      }
    }
    all.held.push_back(std::move(after));
  }
  return all;
}

}  // namespace ripieno
