#include "apps/ripieno/explain_page.h"

#include <algorithm>

#include "ripieno/collective/rounds.h"

namespace ripieno {

SchedulePicture picture_of(const Route& route, World world, std::size_t elements, std::size_t number) {
  const ScheduleRounds all = schedule_rounds_of(route, world, elements);
  SchedulePicture picture;
  picture.name = std::string(route.name);
  picture.title = std::string(route.title);
  picture.source = std::string(route.source);
  picture.ranks = world.ranks;
  picture.per_node = world.per_node;
  for (const Range cell : all.cells) picture.chunks.push_back(static_cast<double>(cell.size() * number));
  const auto cell_from = [&](std::size_t element) {
    return static_cast<std::size_t>(std::find_if(all.cells.begin(), all.cells.end(), [&](Range cell) { return cell.end > element; }) - all.cells.begin());
  };
  for (const auto& round : all.rounds) {
    picture.rounds.emplace_back();
    for (const auto& [from, to, range, into, how] : round) {
      picture.rounds.back().push_back({from, to, cell_from(range.begin), cell_from(range.end - 1), static_cast<double>(range.size() * number), how == Reduce::add});
    }
  }
  picture.held = all.held;
  return picture;
}

}  // namespace ripieno
