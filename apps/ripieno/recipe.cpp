#include "apps/ripieno/recipe.h"

#include <algorithm>
#include <cctype>
#include <iomanip>
#include <map>

#include "apps/ripieno/chosen_cells.h"
#include "apps/ripieno/toml_value.h"
#include "ripieno/core/file.h"
#include "ripieno/report/measures.h"

namespace ripieno::program {
namespace {

constexpr Bounds seeds_range{1, 1000};
constexpr std::uint64_t most_runs = 10'000;  // of a recipe: to make a run's settings takes some 20 us

/// A key of the grid and its values.
struct Axis {
  std::string key;
  std::vector<Value> values;
  Origin origin;
};

using Grid = std::vector<Axis>;

Grid read_grid(const toml::table& grid, const std::string& name) {
  Grid axes;
  for (const Leaf& leaf : leaves(grid, name)) {
    const Setting& setting = known_setting(leaf.key, leaf.origin);
    const std::string place = leaf.origin.place();
    const toml::array* array = leaf.node->as_array();
    if (!array || array->empty()) {
      fail(ErrorKind::usage, place, ": in [grid], ", leaf.key,
           " must be an array of the values that it is to take, with one at least");
    }
    for (const Axis& other : axes) {
      if (other.key != leaf.key) continue;
      fail(ErrorKind::usage, place, ": ", leaf.key, " is in [grid] twice, first at ", other.origin.str());
    }
    Axis axis{leaf.key, {}, leaf.origin};
    for (const toml::node& one : *array) {
      const Value value = checked(setting, one, leaf.origin);
      if (std::find(axis.values.begin(), axis.values.end(), value) != axis.values.end()) {
        fail(ErrorKind::usage, place, ": in [grid], ", leaf.key, " takes ", to_toml(value),
             " twice: the cells would be the same runs (seeds = N repeats a run with other seeds)");
      }
      axis.values.push_back(value);
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

/// The recipe's grids: at least one, perhaps empty.
std::vector<Grid> read_grids(const toml::node* node, const std::string& name) {
  std::vector<Grid> grids;
  if (!node) return {Grid()};
  if (node->is_table()) return {read_grid(*node->as_table(), name)};
  if (!node->is_array_of_tables()) {
    fail(ErrorKind::usage, Origin{name, node->source().begin.line, node->source().begin.column}.place(),
         ": grid must be a table: write [grid], or [[grid]] for each of several");
  }
  for (const toml::node& one : *node->as_array()) grids.push_back(read_grid(*one.as_table(), name));
  return grids;
}

int read_seeds(const toml::node& node, const Origin& origin) {
  const auto* seeds = node.as_integer();
  if (!seeds || !seeds_range.contains(static_cast<double>(seeds->get()))) {
    fail(ErrorKind::usage, origin.place(), ": seeds must be a whole number, ", seeds_range.str(),
         seeds ? text(", not ", seeds->get()) : "");
  }
  return static_cast<int>(seeds->get());
}

/// Takes seeds and the grids' keys from the --set options; the rest goes to `base`.
void apply(const std::vector<std::string>& sets, Settings& base, std::vector<Grid>& grids, int& seeds) {
  for (const std::string& assignment : sets) {
    std::string key = assignment.substr(0, assignment.find('='));
    key.erase(std::remove_if(key.begin(), key.end(), [](unsigned char c) { return std::isspace(c); }), key.end());
    if (key == "seeds" && assignment.find('=') != assignment.npos) {
      const toml::table parsed = parse_toml(assignment, "--set " + assignment);
      seeds = read_seeds(*parsed.get("seeds"), {"--set"});
      continue;
    }
    base.set(assignment);
    for (Grid& grid : grids) std::erase_if(grid, [&](const Axis& axis) { return axis.key == key; });
  }
}

/// The table [scale.NAME], which must be there.
const toml::table& scale_of(const toml::table& recipe, const std::string& scale, const std::string& name) {
  std::string known;
  if (const toml::table* scales = recipe["scale"].as_table()) {
    if (const toml::table* found = (*scales)[scale].as_table()) return *found;
    for (const auto& [key, value] : *scales) known += text(known.empty() ? "" : ", ", key.str());
  }
  fail(ErrorKind::usage, name, ": has no [scale.", scale, "]; ",
       known.empty() ? "it has no scales" : "its scales are " + known);
}

/// A scale's settings override the recipe's, and its grids replace the recipe's.
void take_scale(const toml::table& scale, const std::string& name, Settings& base, std::vector<Grid>& grids,
                int& seeds) {
  if (const toml::node* grid = scale.get("grid")) grids = read_grids(grid, name);
  if (const toml::node* own = scale.get("seeds"))
    seeds = read_seeds(*own, {name, own->source().begin.line, own->source().begin.column});
  toml::table settings = scale;
  settings.erase("grid");
  settings.erase("seeds");
  for (const Leaf& leaf : leaves(settings, name)) {
    base.assign(leaf.key, checked(known_setting(leaf.key, leaf.origin), *leaf.node, leaf.origin), leaf.origin);
    if (scale.contains("grid")) continue;
    for (Grid& grid : grids) std::erase_if(grid, [&](const Axis& axis) { return axis.key == leaf.key; });
  }
}

bool has_axis(const Grid& grid, std::string_view key) {
  return std::any_of(grid.begin(), grid.end(), [&](const Axis& axis) { return axis.key == key; });
}

bool names_its_cells(const Grid& grid) { return has_axis(grid, "run.name"); }

/// The keys with several values over all cells of the grids that do not name their cells, in file order.
std::vector<std::string> varying(std::vector<Grid> grids, const Settings& base) {
  std::vector<std::string> keys;
  std::erase_if(grids, names_its_cells);
  for (const Grid& grid : grids) {
    for (const Axis& axis : grid) {
      if (std::find(keys.begin(), keys.end(), axis.key) == keys.end()) keys.push_back(axis.key);
    }
  }
  std::erase_if(keys, [&](const std::string& key) {
    std::vector<Value> values;
    for (const Grid& grid : grids) {
      const auto axis = std::find_if(grid.begin(), grid.end(), [&](const Axis& one) { return one.key == key; });
      const std::vector<Value> here = axis == grid.end() ? std::vector<Value>{base.value(key)} : axis->values;
      values.insert(values.end(), here.begin(), here.end());
    }
    return std::all_of(values.begin(), values.end(), [&](const Value& value) { return value == values[0]; });
  });
  return keys;
}

std::string shown(const Value& value) {
  const auto* word = std::get_if<std::string>(&value);
  return word ? *word : to_toml(value);
}

/// "ring", "workers4", "flip", "no-flip", "slow1.0_2.0".
std::string name_part(const std::string& key, const Value& value) {
  const std::string last = key.substr(key.rfind('.') + 1);
  std::string part;
  if (const auto* yes = std::get_if<bool>(&value)) {
    part = *yes ? last : "no-" + last;
  } else if (const auto* word = std::get_if<std::string>(&value)) {
    part = word->empty() ? "no-" + last : *word;
  } else {
    for (const char c : last + to_toml(value)) {
      if (c == ',') part += '_';
      if (std::string_view("[], ").find(c) == std::string_view::npos) part += c;
    }
  }
  for (char& c : part) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && std::string_view("-_.+").find(c) == std::string_view::npos) {
      c = '_';
    }
  }
  if (part.front() == '.') part.front() = '_';  // avoids hidden folders and ".."
  return part;
}

bool is_single(const Settings& settings) { return settings->strategy == "single"; }

/// The cell for one combination of a grid's values, still with the recipe's seed.
RecipeCell make_cell(const Settings& base, const Grid& grid, const std::vector<std::size_t>& choice,
                     const std::vector<std::string>& varying) {
  RecipeCell cell;
  cell.settings = base;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    cell.settings.assign(grid[i].key, grid[i].values[choice[i]], grid[i].origin);
  }
  cell.idle = cell.settings.idle();
  const bool single = is_single(cell.settings);
  if (single && cell.settings->workers != 1) {
    cell.settings.assign("workers", std::int64_t{1}, {"strategy single"});
  }
  for (const std::string& key : varying) {
    if (single && key == "workers") continue;
    const Value value = cell.settings.value(key);
    cell.varies.emplace_back(key, shown(value));
    if (!base.is_set(key) && !has_axis(grid, key)) continue;  // a default value that other grids vary
    if (!cell.name.empty()) cell.name += '-';
    cell.name += name_part(key, value);
  }
  if (names_its_cells(grid)) {
    cell.name = name_part("run.name", cell.settings.value("run.name"));
  }
  if (!cell.name.empty() && !names_its_cells(grid) && !cell.settings->run.name.empty()) {
    cell.idle.push_back(
        {"run.name", cell.settings.origin("run.name") == "--set",
         text(cell.settings.shown("run.name"), " has no effect with a grid: its runs are named after what varies")});
  }
  if (cell.name.empty()) {
    const char* key = cell.settings->run.name.empty() ? "strategy" : "run.name";
    cell.name = name_part(key, cell.settings.value(key));
  }
  return cell;
}

/// Advances to the next combination, the last axis fastest; false after the last one.
bool next_choice(const Grid& grid, std::vector<std::size_t>& choice) {
  for (std::size_t i = grid.size(); i-- > 0;) {
    if (++choice[i] < grid[i].values.size()) return true;
    choice[i] = 0;
  }
  return false;
}

std::string read_word(const toml::table& table, const char* key, const std::string& name,
                      const std::string& otherwise) {
  const toml::node* node = table.get(key);
  if (!node) return otherwise;
  if (!node->is_string())
    fail(ErrorKind::usage, Origin{name, node->source().begin.line, node->source().begin.column}.place(), ": ", key,
         " must be a string");
  return node->as_string()->get();
}

/// A number, or an array of numbers.
std::vector<double> read_numbers(const Leaf& leaf) {
  if (leaf.node->is_number()) return {*leaf.node->value<double>()};
  const auto value = to_value(*leaf.node);
  const auto* numbers = value ? std::get_if<std::vector<double>>(&*value) : nullptr;
  if (!numbers)
    fail(ErrorKind::usage, leaf.origin.place(), ": ", leaf.key, " must be numbers, one for each of measures");
  return *numbers;
}

report::Published read_published(const toml::table& table, const std::string& name) {
  const std::string place = Origin{name, table.source().begin.line, table.source().begin.column}.place();
  for (const auto& [key, node] : table) {
    if (key != "title" && key != "note" && key != "measures" && key != "rows") {
      fail(ErrorKind::usage, Origin{name, key.source().begin.line, key.source().begin.column}.place(),
           ": in [[published]], there is no ", key.str(), "; it may have title, note, measures and rows");
    }
  }
  report::Published found;
  found.title = read_word(table, "title", name, "published");
  found.note = read_word(table, "note", name, "");
  const toml::array* its_measures = table["measures"].as_array();
  const toml::table* rows = table["rows"].as_table();
  if (!its_measures || its_measures->empty() || !rows || rows->empty()) {
    fail(ErrorKind::usage, place,
         ": [[published]] needs measures, an array of names, and rows: a cell's name = its numbers");
  }
  for (const toml::node& one : *its_measures) {
    try {
      found.measures.emplace_back(report::find_measure(one.value_or(std::string())).name);
    } catch (const Error& error) {
      fail(error.kind(), place, ": ", error.what());
    }
  }
  for (const Leaf& leaf : leaves(*rows, name)) {
    found.rows.emplace_back(leaf.key, read_numbers(leaf));
    const std::size_t count = found.rows.back().second.size();
    if (count != found.measures.size()) {
      fail(ErrorKind::usage, leaf.origin.place(), ": ", leaf.key, " has ", count, count == 1 ? " number" : " numbers",
           " for ", found.measures.size(), " measures; write nan for what was not published");
    }
  }
  return found;
}

/// Whether the cell's values can be combined. If not, puts the grid's cell into `refused`, if given.
bool check_cell(const RecipeCell& cell, bool of_grid, std::vector<RefusedCell>* refused) {
  try {
    cell.settings.check();
    return true;
  } catch (const Error& error) {
    if (!of_grid) throw;
    if (refused) {
      refused->push_back({cell.name, error.what(), error.kind()});
      return false;
    }
    fail(error.kind(), "cell ", cell.name, ": ", error.what());
  }
}

std::string read_recipe(const std::filesystem::path& path) {
  try {
    return read_file(path);
  } catch (const Error& error) {
    fail(ErrorKind::usage, error.what(), "; give the path of a recipe");
  }
}

/// The recipe without cells, and the grids of which they are made.
std::pair<Recipe, std::vector<Grid>> read_base(std::string_view toml, const std::string& name,
                                               const std::vector<std::string>& sets, const std::string& scale) {
  const toml::table table = parse_toml(toml, name);
  const auto origin = [&](const toml::node& node) {
    return Origin{name, node.source().begin.line, node.source().begin.column};
  };
  Recipe recipe;
  if (const toml::node* title = table.get("title")) {
    if (!title->is_string()) fail(ErrorKind::usage, origin(*title).place(), ": title must be a string");
    recipe.title = title->as_string()->get();
  }
  if (const toml::node* seeds = table.get("seeds")) recipe.seeds = read_seeds(*seeds, origin(*seeds));
  std::vector<Grid> grids = read_grids(table.get("grid"), name);
  if (const toml::node* published = table.get("published")) {
    if (!published->is_array_of_tables())
      fail(ErrorKind::usage, origin(*published).place(), ": published must be tables: write [[published]]");
    for (const toml::node& one : *published->as_array())
      recipe.published.push_back(read_published(*one.as_table(), name));
  }
  Settings base;
  base.load_text(toml, name, {"title", "seeds", "grid", "scale", "published"});
  if (const toml::node* node = table.get("scale")) {
    const toml::table* scales = node->as_table();
    if (!scales) fail(ErrorKind::usage, origin(*node).place(), ": scale must be tables: write [scale.NAME]");
    for (const auto& [key, one] : *scales) {  // scales that are not used must be valid too
      recipe.scales.emplace_back(key.str());
      const toml::table* its = one.as_table();
      if (!its)
        fail(ErrorKind::usage, origin(one).place(), ": scale.", key.str(), " must be a table: write [scale.", key.str(),
             "]");
      Settings tried = base;
      std::vector<Grid> tried_grids = grids;
      int tried_seeds = 1;
      take_scale(*its, name, tried, tried_grids, tried_seeds);
    }
  }
  if (!scale.empty()) take_scale(scale_of(table, scale, name), name, base, grids, recipe.seeds);
  apply(sets, base, grids, recipe.seeds);
  recipe.base = base;
  return {std::move(recipe), std::move(grids)};
}

/// Before any cell is made.
void check_size(const std::vector<Grid>& grids, int seeds, const std::string& name) {
  double cells = 0;
  for (const Grid& grid : grids) {
    double combinations = 1;
    for (const Axis& axis : grid) combinations *= static_cast<double>(axis.values.size());
    cells += combinations;
  }
  if (cells * seeds <= static_cast<double>(most_runs)) return;
  fail(ErrorKind::usage, name, ": [grid] has ", std::fixed, std::setprecision(0), cells, " cells, with ", seeds,
       seeds == 1 ? " seed" : " seeds", " each ", cells * seeds, " runs; a recipe may have ", most_runs,
       ": give its keys fewer values, or fix some with --set");
}

}  // namespace

Recipe load_recipe(const std::filesystem::path& path, const std::vector<std::string>& sets, const std::string& scale,
                   std::vector<RefusedCell>* refused, const std::vector<std::string>& only) {
  return load_recipe_text(read_recipe(path), path.string(), sets, scale, refused, only);
}

Recipe load_recipe_base(const std::filesystem::path& path, const std::vector<std::string>& sets,
                        const std::string& scale) {
  return read_base(read_recipe(path), path.string(), sets, scale).first;
}

Recipe load_recipe_text(std::string_view toml, const std::string& name, const std::vector<std::string>& sets,
                        const std::string& scale, std::vector<RefusedCell>* refused,
                        const std::vector<std::string>& only) {
  auto [recipe, grids] = read_base(toml, name, sets, scale);
  check_size(grids, recipe.seeds, name);
  const Settings& base = recipe.base;
  const std::vector<std::string> varies = varying(grids, base);

  std::map<std::string, std::string> single_runs;  // config.toml -> cell
  DistinctCells distinct(name, only);
  for (const Grid& grid : grids) {
    std::vector<std::size_t> choice(grid.size(), 0);
    do {
      const RecipeCell cell = make_cell(base, grid, choice, varies);
      if (!check_cell(cell, !grid.empty(), refused)) continue;
      // `single` is the same run for every number of workers in the grid.
      if (is_single(cell.settings) && !single_runs.emplace(cell.settings.to_toml(), cell.name).second) continue;
      for (int i = 0; i < recipe.seeds; ++i) {
        RecipeCell& one = recipe.cells.emplace_back(cell);
        one.seed_index = i;
        const auto seed = static_cast<std::int64_t>(cell.settings->seed);
        if (i > 0) one.settings.assign("seed", seed + i, {"seeds"});
        distinct.add(one);
      }
    } while (next_choice(grid, choice));
  }
  return recipe;
}

}  // namespace ripieno::program
