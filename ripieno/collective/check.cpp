#include "ripieno/collective/check.h"

#include <algorithm>
#include <tuple>

#include "ripieno/collective/rounds.h"

namespace ripieno {
namespace {

/// Whose contributions an element holds: one bit a rank.
using Contributions = std::vector<std::uint64_t>;

Contributions of(int rank, int ranks) {
  Contributions set((ranks + 63) / 64, 0);
  set[rank / 64] |= std::uint64_t{1} << (rank % 64);
  return set;
}

bool meets(const Contributions& a, const Contributions& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] & b[i]) return true;
  }
  return false;
}

Contributions united(Contributions a, const Contributions& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] |= b[i];
  return a;
}

std::string print(const Transfer& t) {
  return text("[", t.range.begin, ", ", t.range.end, ") ", t.how == Reduce::add ? "add" : "replace");
}

}  // namespace

void check_schedule(const Route& route, World world, std::size_t elements) {
  const int ranks = world.ranks;
  const auto wrong = [&](int k, const auto&... what) {
    fail(ErrorKind::internal, route.name, " for ", ranks, " ranks, ", world.per_node, " a node, and ", elements,
         " elements, step ", k, ": ", what...);
  };
  const std::vector<std::size_t> cut = schedule_cuts(route, world, elements);
  require(cut.back() == elements, route.name, " reaches element ", cut.back(), " of ", elements);
  const std::size_t cells = cut.size() - 1;
  const auto cells_of = [&](Range range) {
    return std::pair(std::lower_bound(cut.begin(), cut.end(), range.begin) - cut.begin(),
                     std::lower_bound(cut.begin(), cut.end(), range.end) - cut.begin());
  };
  Contributions everyone((ranks + 63) / 64, 0);
  for (int rank = 0; rank < ranks; ++rank) everyone = united(everyone, of(rank, ranks));

  std::vector<std::vector<Contributions>> held(ranks);
  for (int rank = 0; rank < ranks; ++rank) held[rank].assign(cells, of(rank, ranks));
  const auto before = held;
  const auto& carried = route.at_once ? before : held;  // what sends read

  for (int k = 0; k < route.steps(world); ++k) {
    std::vector<Step> step;
    for (int rank = 0; rank < ranks; ++rank) step.push_back(route.step(rank, world, elements, k));
    std::vector<std::tuple<int, std::size_t, Contributions>> after;  // what changes: rank, cell, what it then holds
    for (int rank = 0; rank < ranks; ++rank) {
      const auto& [send, receive] = step[rank];
      if (send) {
        if (send->peer < 0 || send->peer >= ranks || send->peer == rank) wrong(k, "rank ", rank, " sends to ", send->peer);
        const auto& other = step[send->peer].receive;
        if (!other || other->peer != rank) wrong(k, "rank ", rank, " sends to rank ", send->peer, ", which does not receive");
      }
      if (!receive) continue;
      if (receive->peer < 0 || receive->peer >= ranks || receive->peer == rank) {
        wrong(k, "rank ", rank, " receives from ", receive->peer);
      }
      const auto& other = step[receive->peer].send;
      if (!other || other->peer != rank) {
        wrong(k, "rank ", rank, " receives from rank ", receive->peer, ", which does not send");
      }
      if (other->range != receive->range || other->how != receive->how) {
        wrong(k, "rank ", receive->peer, " sends ", print(*other), ", rank ", rank, " receives ", print(*receive));
      }
      if (route.at_once && receive->how != Reduce::add) wrong(k, "rank ", rank, " receives ", print(*receive), " at once");
      if (!route.at_once && send && send->range.begin < receive->range.end && receive->range.begin < send->range.end) {
        wrong(k, "rank ", rank, " receives ", print(*receive), " into what it sends, ", print(*send));
      }
      const auto [first, last] = cells_of(receive->range);
      for (auto cell = first; cell < last; ++cell) {
        const Contributions& arriving = carried[receive->peer][cell];
        if (receive->how == Reduce::replace) {
          if (arriving != everyone) wrong(k, "rank ", receive->peer, " sends element ", cut[cell], " as final, and it is not");
          after.emplace_back(rank, cell, arriving);
        } else {
          if (meets(held[rank][cell], arriving)) wrong(k, "rank ", rank, " adds a contribution twice at element ", cut[cell]);
          after.emplace_back(rank, cell, united(held[rank][cell], arriving));
        }
      }
    }
    for (auto& [rank, cell, contributions] : after) held[rank][cell] = std::move(contributions);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t cell = 0; cell < cells; ++cell) {
      if (held[rank][cell] == everyone) continue;
      int missing = 0;
      while (meets(held[rank][cell], of(missing, ranks))) ++missing;
      wrong(route.steps(world), "rank ", rank, " ends without rank ", missing, "'s contribution at element ", cut[cell]);
    }
  }
}

ScheduleCost schedule_cost(const Route& route, int rank, World world, std::size_t elements) {
  ScheduleCost cost;
  for (int k = 0; k < route.steps(world); ++k) {
    const Step step = route.step(rank, world, elements, k);
    if (step.send && step.send->range.size() > 0) {
      cost.elements_sent += step.send->range.size();
      ++cost.messages_sent;
    }
    if (step.receive && step.receive->range.size() > 0) {
      cost.elements_received += step.receive->range.size();
      ++cost.messages_received;
    }
  }
  return cost;
}

int schedule_rounds(const Route& route, World world, std::size_t elements) {
  int rounds = 0;
  for (int k = 0; k < route.steps(world); ++k) {
    bool moves = false;
    for (int rank = 0; rank < world.ranks && !moves; ++rank) {
      const Step step = route.step(rank, world, elements, k);
      moves = step.send && step.send->range.size() > 0;
    }
    rounds += moves;
  }
  return route.at_once ? std::min(rounds, 1) : rounds;
}

}  // namespace ripieno
