#include <algorithm>

#include "apps/ripieno/recipe.h"

namespace ripieno::program {

void keep_cells(const std::vector<std::string>& names, const std::string& path, Recipe* recipe,
                std::vector<RefusedCell>* refused) {
  std::vector<std::string> there;
  for (const RecipeCell& cell : recipe->cells) {
    if (cell.seed_index == 0) there.push_back(cell.name);
  }
  for (const RefusedCell& cell : *refused) there.push_back(cell.name);
  std::string known;
  for (const std::string& name : there) known += (known.empty() ? "" : ", ") + name;
  for (const std::string& name : names) {
    if (std::find(there.begin(), there.end(), name) == there.end())
      fail(ErrorKind::usage, "--only ", name, ": ", path, " has no such cell; its cells are ", known);
  }
  const auto is_other = [&](const auto& cell) {
    return std::find(names.begin(), names.end(), cell.name) == names.end();
  };
  std::erase_if(recipe->cells, is_other);
  std::erase_if(*refused, is_other);
}

}  // namespace ripieno::program
