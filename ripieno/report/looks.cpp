#include "ripieno/report/looks.h"

#include <map>
#include <string>

namespace ripieno::report {

void give_looks(std::vector<Cell>& cells) {
  std::map<std::string, int> names;
  std::map<int, int> used;  // how often each colour was given
  for (Cell& cell : cells) {
    const int number = names.emplace(cell.first().summary.name, static_cast<int>(names.size())).first->second;
    const int colour = number % colours, again = used[colour]++;
    // Markers differ between colours too, for readers who see colours less well.
    cell.look = {colour, again % dashes, (colour + again / dashes) % markers};
  }
}

}  // namespace ripieno::report
