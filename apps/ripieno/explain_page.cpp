#include "apps/ripieno/explain_page.h"

#include <algorithm>

#include "apps/ripieno/operations.h"
#include "ripieno/collective/rounds.h"

namespace ripieno::program {
namespace {

std::string start_of(const collective::Route& route, collective::World world) {
  switch (route.collective) {
    case transport::Collective::all_gather:
    case transport::Collective::gather:
      return "every rank holds its own chunk alone";
    case transport::Collective::broadcast:
    case transport::Collective::scatter:
      return text("rank ", world.root, " holds its numbers, the other ranks nothing that counts");
    default:
      return "every rank holds its own numbers alone";
  }
}

/// Whether the collective promises a rank's final content of this part.
bool is_promised(const collective::Route& route, collective::World world, std::size_t elements, int rank, Range cell) {
  switch (route.collective) {
    case transport::Collective::reduce_scatter:
    case transport::Collective::scatter: {
      const Range own = chunk(elements, world.ranks, rank);
      return own.begin <= cell.begin && cell.end <= own.end;
    }
    case transport::Collective::reduce:
    case transport::Collective::gather:
      return rank == world.root;
    default:
      return true;
  }
}

/// Joins a rank's two messages to another that wrap around the buffer's end.
void join_around_the_end(std::vector<report::SchedulePicture::Transfer>& round, std::size_t chunks) {
  for (std::size_t i = 0; i + 1 < round.size(); ++i) {
    report::SchedulePicture::Transfer &one = round[i], &next = round[i + 1];
    if (one.from != next.from || one.to != next.to || one.adds != next.adds || one.last + 1 != chunks ||
        next.first != 0)
      continue;
    one.last = next.last;
    one.bytes += next.bytes;
    round.erase(round.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

}  // namespace

report::SchedulePicture picture_of(const collective::Route& route, collective::World world, std::size_t elements,
                                   std::size_t number) {
  collective::ScheduleRounds all = collective::schedule_rounds_of(route, world, elements);
  report::SchedulePicture picture;
  picture.name = text(transport::name(route.collective), " along ", route.name);
  picture.title = std::string(route.title);
  picture.source = std::string(route.source);
  picture.start = start_of(route, world);
  picture.outcome = promise_of(route.collective, world.root, "holds");
  picture.sums = collective::reduces(route.collective);
  picture.ranks = world.ranks;
  picture.per_node = world.per_node;
  picture.root = collective::has_root(route.collective) ? world.root : -1;
  if (route.collective == transport::Collective::all_to_all && !all.rounds.empty() &&
      all.cells.back().begin == collective::block_of(elements, world.ranks, world.ranks).begin) {
    all.cells.pop_back();  // the rest is left alone
  }
  for (const Range cell : all.cells) picture.chunks.push_back(static_cast<double>(cell.size() * number));
  const auto cell_from = [&](std::size_t element) {
    return static_cast<std::size_t>(
        std::find_if(all.cells.begin(), all.cells.end(), [&](Range cell) { return cell.end > element; }) -
        all.cells.begin());
  };
  for (const auto& round : all.rounds) {
    picture.rounds.emplace_back();
    for (const auto& [from, to, range, into, how] : round) {
      picture.rounds.back().push_back({from, to, cell_from(range.begin), cell_from(range.end - 1),
                                       cell_from(into.begin), static_cast<double>(range.size() * number),
                                       how == numeric::Reduce::add});
    }
    join_around_the_end(picture.rounds.back(), all.cells.size());
  }
  for (auto& ranks : all.held) {
    for (auto& cells : ranks) cells.resize(all.cells.size());
  }
  picture.held = all.held;
  picture.goal = all.held.back();
  for (int rank = 0; rank < world.ranks; ++rank) {
    for (std::size_t cell = 0; cell < all.cells.size(); ++cell) {
      if (!is_promised(route, world, elements, rank, all.cells[cell])) {
        picture.goal[static_cast<std::size_t>(rank)][cell] = 0;
      }
    }
  }
  return picture;
}

}  // namespace ripieno::program
