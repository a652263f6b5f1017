#include <algorithm>

#include "apps/ripieno/recipe.h"

namespace ripieno::program {
namespace {

/// Why a key has no effect in any cell, as the first cell states it; empty if it has one in some cell.
std::string why_idle(const std::vector<RecipeCell>& cells, const std::string& key) {
  std::string why;
  for (const RecipeCell& cell : cells) {
    const auto found =
        std::find_if(cell.idle.begin(), cell.idle.end(), [&](const IdleKey& one) { return one.key == key; });
    if (found == cell.idle.end() && cell.settings.is_set(key)) return "";
    if (found != cell.idle.end() && why.empty()) why = found->why;
  }
  return why;
}

/// The keys without effect, from the command line or from a file, in the table's order.
std::vector<std::string> all_idle(const std::vector<RecipeCell>& cells, bool asked) {
  std::vector<std::string> lines;
  for (const Setting& setting : all_settings()) {
    const bool of_these = std::any_of(cells.begin(), cells.end(), [&](const RecipeCell& cell) {
      return std::any_of(cell.idle.begin(), cell.idle.end(),
                         [&](const IdleKey& one) { return one.key == setting.key && one.asked == asked; });
    });
    if (!of_these) continue;
    if (const std::string why = why_idle(cells, setting.key); !why.empty()) lines.push_back(why);
  }
  return lines;
}

}  // namespace

void refuse_idle(const std::vector<RecipeCell>& cells) {
  const std::vector<std::string> lines = all_idle(cells, true);
  if (!lines.empty()) fail(ErrorKind::usage, lines[0], "; leave it out, or change that");
}

std::vector<std::string> idle_in_file(const std::vector<RecipeCell>& cells) { return all_idle(cells, false); }

}  // namespace ripieno::program
