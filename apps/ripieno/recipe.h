// A recipe: one experiment as a TOML file. Beside the keys of settings.h it may hold
//   title = "..."         what the experiment asks
//   seeds = 3             repeat each cell with seed, seed + 1, seed + 2
//   [grid]                keys with the values that they are to take in turn:
//   strategy = ["single", "ring"]
//   "exchange.codec" = ["fp32", "fp16"]
//   [scale.quick]         settings in place of the recipe's, where --scale quick asks for it; also seeds and grids:
//   train.epochs = 1      a key that a scale sets is no longer varied by the recipe's grids, and a scale's grids
//   replace them
//   [[published]]         what others have published of it, for `compare` and `report` to show beside:
//   title = "...", note = "...", measures = ["s_epoch", "accuracy"]   names that `list measures` has
//   rows.ring = [1.5, 98.2]   a cell's name, and a number a measure (nan: none)
// It is then a list of runs, its cells: the product of the grid's values in file order (the first key changes slowest),
// with the seeds innermost. A grid that has run.name gives its cells that name. Several grids, [[grid]] each, are run
// one after the other; what one leaves out is as above them.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "apps/ripieno/settings.h"
#include "ripieno/report/published.h"

namespace ripieno::program {

struct RecipeCell {
  /// From the values that vary, fit for a folder's name: "ring-fp16", "ring-workers4". Cells that differ in their seed
  /// alone share it. Where nothing varies: run.name, or else the strategy.
  std::string name;
  std::vector<std::pair<std::string, std::string>> varies;  ///< key and value of each grid key with several values
  Settings settings;
  std::vector<IdleKey> idle;  ///< of the settings as they were given
  int seed_index = 0;         ///< 0 .. seeds-1; the cell's `seed` is the recipe's plus this
};

/// A cell that cannot be run, and the reason.
struct RefusedCell {
  std::string name, reason;
  ErrorKind kind = ErrorKind::usage;
};

struct Recipe {
  std::string title;  ///< empty: none
  Settings base;      ///< the base of all cells: the recipe without its grids
  std::vector<RecipeCell> cells;
  int seeds = 1;
  std::vector<report::Published> published;
  std::vector<std::string> scales;  ///< their names, as --scale takes them
};

/// Reads a recipe, takes a `scale` of its where one is asked for, applies `sets` (KEY=VALUE each, as Settings::set; a
/// key of the grid is then no longer varied, and seeds=N is allowed too) and checks every cell. The strategy "single"
/// is one worker: its cells get workers = 1 whatever the recipe says, and are not repeated for each number of workers
/// in the grid. Throws Error(usage), as Settings does, also on a grid key that is unknown, given twice or without an
/// array of values, on two cells that would be the same run, and on a scale that the recipe has not. `refused`: cells
/// of a grid whose values do not go together are put there in place of an error. `only`: the cells that will be kept;
/// others may be the same run.
Recipe load_recipe(const std::filesystem::path& path, const std::vector<std::string>& sets,
                   const std::string& scale = "", std::vector<RefusedCell>* refused = nullptr,
                   const std::vector<std::string>& only = {});

/// The same without cells: the grid is not looked at.
Recipe load_recipe_base(const std::filesystem::path& path, const std::vector<std::string>& sets,
                        const std::string& scale = "");

/// load_recipe() from text; `name` stands for the file.
Recipe load_recipe_text(std::string_view toml, const std::string& name, const std::vector<std::string>& sets,
                        const std::string& scale = "", std::vector<RefusedCell>* refused = nullptr,
                        const std::vector<std::string>& only = {});

/// A key is without effect where it has none in any of the cells that it is given in: strategies of one grid share
/// keys. Throws Error(usage) for the first of the command line's.
void refuse_idle(const std::vector<RecipeCell>& cells);
/// A line for each of the file's.
std::vector<std::string> idle_in_file(const std::vector<RecipeCell>& cells);

}  // namespace ripieno::program
