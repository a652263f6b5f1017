// Of a recipe's cells those that a command takes (--only), and whether they are different runs.
#pragma once

#include <map>
#include <set>

#include "apps/ripieno/recipe.h"

namespace ripieno::program {

/// Keeps only the cells of these names, of the recipe in the file `path`. Error(usage), which lists the names, if there
/// is no such cell.
void keep_cells(const std::vector<std::string>& names, const std::string& path, Recipe* recipe,
                std::vector<RefusedCell>* refused);

/// Runs of a recipe, as a command's arguments choose them.
struct ChosenRuns {
  std::string recipe, scale;
  std::vector<std::string> sets, only;
};
/// The command for these runs ("compare"), as a shell takes it.
std::string command_for(const std::string& name, const ChosenRuns& runs);

/// Refuses cells that would be the same run, or have the same name.
class DistinctCells {
 public:
  /// `only`: the cells that are compared; empty: all.
  DistinctCells(std::string file, std::vector<std::string> only) : file_(std::move(file)), only_(std::move(only)) {}
  /// Error(usage), which names both cells.
  void add(const RecipeCell& cell);

 private:
  const std::string file_;
  const std::vector<std::string> only_;
  std::map<std::string, std::pair<std::string, int>> runs_;  // config.toml -> cell and seed's index
  std::set<std::pair<std::string, int>> names_;
};

}  // namespace ripieno::program
