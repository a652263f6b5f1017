#include "apps/ripieno/chosen_cells.h"

#include <algorithm>

#include "ripieno/launch/shell.h"

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

void DistinctCells::add(const RecipeCell& cell) {
  if (!only_.empty() && std::find(only_.begin(), only_.end(), cell.name) == only_.end()) return;
  const std::pair place(cell.name, cell.seed_index);
  const auto [same, is_new] = runs_.emplace(cell.settings.to_toml(), place);
  if (!is_new) {
    const auto& [other, index] = same->second;
    fail(ErrorKind::usage, file_, ": cells ", other, " and ", cell.name, " are the same run with seed ",
         cell.settings->seed, ": ",
         index != cell.seed_index ? "let either the grid or seeds vary the seed"
         : other == cell.name     ? "what tells them apart is set for both"
                                  : "what tells them apart is set for both; take one with --only");
  }
  if (!names_.insert(place).second) {
    fail(ErrorKind::usage, file_, ": two cells of the grid would both be named ", cell.name,
         ": change one of the values that their names are made from");
  }
}

std::string command_for(const std::string& name, const ChosenRuns& runs) {
  std::vector<std::string> words{"ripieno", name, runs.recipe};
  if (!runs.scale.empty()) words.insert(words.end(), {"--scale", runs.scale});
  for (const std::string& set : runs.sets) words.insert(words.end(), {"--set", set});
  std::string cells;
  for (const std::string& cell : runs.only) cells += (cells.empty() ? "" : ",") + cell;
  if (!cells.empty()) words.insert(words.end(), {"--only", cells});
  std::string command;
  for (const std::string& word : words) command += (command.empty() ? "" : " ") + launch::shell_word(word);
  return command;
}

}  // namespace ripieno::program
