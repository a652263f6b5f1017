#include "ripieno/collective/check.h"

#include <algorithm>

#include "ripieno/collective/rounds.h"

namespace ripieno::collective {
namespace {

std::string print(const Transfer& t) {
  return text("[", t.range.begin, ", ", t.range.end, ") ", t.how == numeric::Reduce::add ? "add" : "replace");
}

/// A set of ranks of any size, fast for up to 64 ranks.
class Ranks {
 public:
  bool has(int rank) const { return (word(rank) >> (rank % 64) & 1) != 0; }
  void insert(int rank) {
    if (rank >= 64 && more_.size() < static_cast<std::size_t>(rank) / 64)
      more_.resize(static_cast<std::size_t>(rank) / 64);
    (rank < 64 ? first_ : more_[static_cast<std::size_t>(rank) / 64 - 1]) |= std::uint64_t{1} << (rank % 64);
  }
  bool meets(const Ranks& other) const {
    bool any = (first_ & other.first_) != 0;
    for (std::size_t i = 0; i < std::min(more_.size(), other.more_.size()); ++i)
      any = any || (more_[i] & other.more_[i]) != 0;
    return any;
  }
  void insert(const Ranks& other) {
    first_ |= other.first_;
    if (more_.size() < other.more_.size()) more_.resize(other.more_.size());
    for (std::size_t i = 0; i < other.more_.size(); ++i) more_[i] |= other.more_[i];
  }
  bool operator==(const Ranks&) const = default;

 private:
  std::uint64_t word(int rank) const {
    if (rank < 64) return first_;
    const auto at = static_cast<std::size_t>(rank) / 64 - 1;
    return at < more_.size() ? more_[at] : 0;
  }
  std::uint64_t first_ = 0;
  std::vector<std::uint64_t> more_;  ///< without zeros at the end
};

/// What a cell of a rank's buffer holds: the cell of the input that it belongs to, and whose contributions to it.
struct Contributions {
  std::ptrdiff_t cell = -1;  ///< -1: undefined content
  Ranks ranks;

  bool operator==(const Contributions&) const = default;
};

/// Runs a schedule on contents instead of numbers.
class Proof {
 public:
  Proof(const Route& route, World world, std::size_t elements)
      : route_(route), world_(world), elements_(elements), cut_(schedule_cuts(route, world, elements)) {
    require(cut_.back() == elements, route.name, " reaches element ", cut_.back(), " of ", elements);
    for (int rank = 0; rank < world.ranks; ++rank) all_.insert(rank);
    for (std::size_t cell = 0; cell < cells(); ++cell) owners_.push_back(owner_of(cut_[cell]));
    for (int rank = 0; rank < world.ranks; ++rank) held_.push_back(inputs_of(rank));
  }

  void run() {
    for (k_ = 0; k_ < route_.steps(world_); ++k_) take_step();
    for (int rank = 0; rank < world_.ranks; ++rank) {
      for (std::size_t cell = 0; cell < cells(); ++cell) check_end(rank, cell);
    }
  }

 private:
  std::size_t cells() const { return cut_.size() - 1; }
  Range of(std::size_t cell) const { return {cut_[cell], cut_[cell + 1]}; }
  /// The first cell of a range.
  std::size_t cell_at(std::size_t element) const {
    return static_cast<std::size_t>(std::lower_bound(cut_.begin(), cut_.end(), element) - cut_.begin());
  }
  /// The rank whose chunk (in an all-to-all: block) holds an element; -1: no rank's.
  int owner_of(std::size_t element) const {
    for (int i = 0; i < world_.ranks; ++i) {
      const Range range = route_.collective == transport::Collective::all_to_all ? block_of(elements_, world_.ranks, i)
                                                                                 : chunk(elements_, world_.ranks, i);
      if (range.begin <= element && element < range.end) return i;
    }
    return -1;
  }
  int owner(std::size_t cell) const { return owners_[cell]; }

  static Contributions from(std::size_t cell, int rank) {
    Contributions content{static_cast<std::ptrdiff_t>(cell), {}};
    content.ranks.insert(rank);
    return content;
  }
  Contributions from_all(std::size_t cell) const { return {static_cast<std::ptrdiff_t>(cell), all_}; }

  std::vector<Contributions> inputs_of(int rank) const {
    std::vector<Contributions> contents(cells());
    for (std::size_t cell = 0; cell < cells(); ++cell) {
      bool has = true;
      switch (route_.collective) {
        case transport::Collective::all_gather:
        case transport::Collective::gather:
          has = owner(cell) == rank;
          break;
        case transport::Collective::broadcast:
        case transport::Collective::scatter:
          has = rank == world_.root;
          break;
        default:
          break;
      }
      if (has) contents[cell] = from(cell, rank);
    }
    return contents;
  }

  /// What the collective promises for a cell; empty Contributions: undefined content.
  Contributions promised(int rank, std::size_t cell) const {
    const bool is_root = rank == world_.root;
    const int its = owner(cell);
    switch (route_.collective) {
      case transport::Collective::all_reduce:
        return from_all(cell);
      case transport::Collective::reduce_scatter:
        return its == rank ? from_all(cell) : Contributions{};
      case transport::Collective::all_gather:
        return from(cell, its);
      case transport::Collective::broadcast:
        return from(cell, world_.root);
      case transport::Collective::reduce:
        return is_root ? from_all(cell) : Contributions{};
      case transport::Collective::gather:
        return is_root ? from(cell, its) : Contributions{};
      case transport::Collective::scatter:
        return its == rank ? from(cell, world_.root) : Contributions{};
      case transport::Collective::all_to_all: {
        if (its < 0) return from(cell, rank);  // beyond the last block
        const std::size_t into = cut_[cell] - block_of(elements_, world_.ranks, its).begin;
        return from(cell_at(block_of(elements_, world_.ranks, rank).begin + into), its);
      }
    }
    return {};
  }

  void take_step() {
    std::vector<Step> steps;
    for (int rank = 0; rank < world_.ranks; ++rank) steps.push_back(route_.step(rank, world_, elements_, k_));
    std::vector<Arrival> arrivals;  // all sends carry the content before the step
    for (int rank = 0; rank < world_.ranks; ++rank) {
      check_sends(steps, rank);
      check_places(steps[static_cast<std::size_t>(rank)], rank);
      const Transfers& receives = steps[static_cast<std::size_t>(rank)].receives;
      for (std::size_t i = 0; i < receives.size(); ++i) receive(steps, rank, i, arrivals);
    }
    for (Arrival& one : arrivals) take(one);
  }

  struct Arrival {
    int rank;
    std::size_t cell;
    numeric::Reduce how;
    Contributions content;
  };

  void check_peer(int rank, int peer, const char* does) const {
    if (peer < 0 || peer >= world_.ranks || peer == rank) wrong("rank ", rank, " ", does, " ", peer);
  }

  void check_sends(const std::vector<Step>& steps, int rank) const {
    const Transfers& sends = steps[static_cast<std::size_t>(rank)].sends;
    for (std::size_t i = 0; i < sends.size(); ++i) {
      check_peer(rank, sends[i].peer, "sends to");
      const Transfers& theirs = steps[static_cast<std::size_t>(sends[i].peer)].receives;
      if (!counterpart(rank, sends, i, theirs)) {
        wrong("rank ", rank, " sends to rank ", sends[i].peer, ", which does not receive");
      }
    }
  }

  void check_places(const Step& step, int rank) const {
    for (const Transfer& in : step.receives) {
      const bool is_sent = overlaps(in, step.sends);
      for (const Transfer& other : step.receives) {
        if (&other == &in) continue;
        const bool both_add = in.how == numeric::Reduce::add && other.how == numeric::Reduce::add;
        const bool meet = overlaps(in, other), both_sent = is_sent && overlaps(other, step.sends);
        if (meet && !both_add) wrong("rank ", rank, " receives ", print(in), " and ", print(other));
        if (both_add && both_sent && in.range != other.range)
          wrong("rank ", rank, " adds ", print(in), " and ", print(other), " to what it sends");
        if (meet && !both_sent) wrong("rank ", rank, " adds ", print(in), " and ", print(other), " to one place");
      }
    }
  }

  void receive(const std::vector<Step>& steps, int rank, std::size_t i, std::vector<Arrival>& arrivals) const {
    const Transfers& receives = steps[static_cast<std::size_t>(rank)].receives;
    const Transfer& in = receives[i];
    check_peer(rank, in.peer, "receives from");
    const Transfer* const out = counterpart(rank, receives, i, steps[static_cast<std::size_t>(in.peer)].sends);
    if (!out) wrong("rank ", rank, " receives from rank ", in.peer, ", which does not send");
    if (out->range.size() != in.range.size() || out->how != in.how) {
      wrong("rank ", in.peer, " sends ", print(*out), ", rank ", rank, " receives ", print(in));
    }
    const std::size_t first = cell_at(in.range.begin), last = cell_at(in.range.end), source = cell_at(out->range.begin);
    for (std::size_t cell = first; cell < last; ++cell) {
      const std::size_t there = source + cell - first;
      require(of(there).size() == of(cell).size(), "the cells of a transfer do not match");
      const Contributions& arriving = held_[static_cast<std::size_t>(in.peer)][there];
      if (arriving.cell < 0) wrong("rank ", in.peer, " sends element ", cut_[there], ", which is of no stated content");
      arrivals.push_back({rank, cell, in.how, arriving});
      const bool is_final = arriving.ranks == all_ || !reduces(route_.collective);
      if (in.how == numeric::Reduce::replace && !is_final) {
        wrong("rank ", in.peer, " sends element ", cut_[there], " as final, and it is not");
      }
    }
  }

  void take(Arrival& arrival) {
    const auto& [rank, cell, how, arriving] = arrival;
    Contributions& held = held_[static_cast<std::size_t>(rank)][cell];
    if (how == numeric::Reduce::replace) {
      held = std::move(arrival.content);
      return;
    }
    if (!reduces(route_.collective))
      wrong("rank ", rank, " adds at element ", cut_[cell], ", and nothing is to be added");
    if (held.cell != arriving.cell) wrong("rank ", rank, " adds another element to element ", cut_[cell]);
    if (held.ranks.meets(arriving.ranks)) wrong("rank ", rank, " adds a contribution twice at element ", cut_[cell]);
    held.ranks.insert(arriving.ranks);
  }

  void check_end(int rank, std::size_t cell) const {
    const Contributions expected = promised(rank, cell);
    const Contributions& is = held_[static_cast<std::size_t>(rank)][cell];
    if (expected.cell < 0 || is == expected) return;
    if (is.cell != expected.cell) wrong("rank ", rank, " ends with something else at element ", cut_[cell]);
    for (int other = 0; other < world_.ranks; ++other) {
      if (expected.ranks.has(other) && !is.ranks.has(other)) {
        wrong("rank ", rank, " ends without rank ", other, "'s contribution at element ", cut_[cell]);
      }
    }
    wrong("rank ", rank, " ends with contributions that are not asked for at element ", cut_[cell]);
  }

  template <class... What>
  [[noreturn]] void wrong(const What&... what) const {
    fail(ErrorKind::internal, transport::name(route_.collective), " ", route_.name, " for ", world_.ranks, " ranks, ",
         world_.per_node, " a node, root ", world_.root, ", and ", elements_, " elements, step ", k_, ": ", what...);
  }

  const Route& route_;
  const World world_;
  const std::size_t elements_;
  const std::vector<std::size_t> cut_;
  Ranks all_;
  std::vector<int> owners_;                       ///< by cell
  std::vector<std::vector<Contributions>> held_;  ///< by rank and cell
  int k_ = 0;
};

}  // namespace

void check_schedule(const Route& route, World world, std::size_t elements) { Proof(route, world, elements).run(); }

ScheduleCost schedule_cost(const Route& route, int rank, World world, std::size_t elements) {
  ScheduleCost cost;
  for (int k = 0; k < route.steps(world); ++k) {
    const Step step = route.step(rank, world, elements, k);
    for (const Transfer& out : step.sends) {
      cost.elements_sent += out.range.size();
      cost.messages_sent += out.range.size() > 0;
    }
    for (const Transfer& in : step.receives) {
      cost.elements_received += in.range.size();
      cost.messages_received += in.range.size() > 0;
    }
  }
  return cost;
}

int schedule_rounds(const Route& route, World world, std::size_t elements) {
  int rounds = 0;
  for (int k = 0; k < route.steps(world); ++k) {
    bool moves = false;
    for (int rank = 0; rank < world.ranks && !moves; ++rank) {
      for (const Transfer& out : route.step(rank, world, elements, k).sends) moves = moves || out.range.size() > 0;
    }
    rounds += moves;
  }
  return rounds;
}

bool adds_on_the_way(const Route& route) {
  const World two(2);
  for (int k = 0; k < route.steps(two); ++k) {
    const Step step = route.step(0, two, 2, k);
    for (const Transfer& in : step.receives) {
      if (overlaps(in, step.sends)) return false;
    }
  }
  return true;
}

}  // namespace ripieno::collective
