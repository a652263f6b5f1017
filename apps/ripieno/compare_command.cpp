#include <algorithm>
#include <iostream>
#include <memory>

#include "apps/ripieno/choose_exchange.h"
#include "apps/ripieno/commands.h"
#include "apps/ripieno/job.h"
#include "apps/ripieno/recipe.h"
#include "apps/ripieno/run_folder.h"
#include "apps/ripieno/train.h"
#include "ripieno/core/file.h"
#include "ripieno/report/compare.h"
#include "ripieno/report/published.h"
#include "ripieno/report/table.h"

namespace ripieno {
namespace {

/// The finished run that was asked for with these very settings among the run folders, if there is one.
std::optional<TrainResult> find_done(const Settings& settings) {
  const std::filesystem::path runs = settings.get<std::string>("run.folder");
  if (!std::filesystem::is_directory(runs)) return {};
  const std::string wanted = settings.to_toml();
  for (const auto& entry : std::filesystem::directory_iterator(runs)) {
    if (!std::filesystem::exists(entry.path() / "config.toml")) continue;
    const RunFolder run = RunFolder::open(entry.path());
    if (!std::filesystem::exists(run.summary())) continue;
    if (std::filesystem::exists(run.path() / "resumed_from")) continue;  // a part of a run
    const bool chose = std::filesystem::exists(run.asked());
    if (read_file(chose ? run.asked() : run.config()) == wanted) return TrainResult{run.path(), read_summary(run.summary())};
  }
  return {};
}

/// Leaves only the cells of these names. Throws Error(usage) that lists the names where there is no such cell.
void keep(const std::vector<std::string>& names, const std::string& path, Recipe& recipe) {
  std::string known;
  for (const RecipeCell& cell : recipe.cells) {
    if (cell.seed_index == 0) known += (known.empty() ? "" : ", ") + cell.name;
  }
  for (const std::string& name : names) {
    const bool is_there = std::any_of(recipe.cells.begin(), recipe.cells.end(), [&](const RecipeCell& cell) { return cell.name == name; });
    if (!is_there) fail(ErrorKind::usage, "--only ", name, ": ", path, " has no such cell; its cells are ", known);
  }
  std::erase_if(recipe.cells, [&](const RecipeCell& cell) { return std::find(names.begin(), names.end(), cell.name) == names.end(); });
}

void print_published(const std::vector<Published>& published, const std::vector<std::filesystem::path>& folders) {
  std::vector<Run> runs;
  for (const auto& folder : folders) runs.push_back(read_run(folder));
  for (const Published& one : published) {
    const ReportTable found = published_table(one, runs, "published");
    Table table;
    for (const auto& column : found.columns) table.column(column.title, column.is_text ? Align::left : Align::right);
    for (const auto& row : found.rows) {
      std::vector<std::string> cells;
      for (const ReportCell& cell : row) cells.push_back(cell.text);
      table.row(std::move(cells));
    }
    std::cout << "\n" << one.title << "\n" << table.str() << (one.note.empty() ? "" : one.note + "\n");
  }
}

struct CompareArguments : RecipeArguments {
  std::vector<std::string> only;
};

void run_compare(const CompareArguments& arguments, const CommandContext& context) {
  Recipe recipe = load_recipe(arguments.recipe, arguments.sets, arguments.scale);
  tell_idle(recipe.cells, context.zoo);
  if (!arguments.only.empty()) {
    keep(arguments.only, arguments.recipe, recipe);
    refuse_idle(recipe.cells);
  }
  for (RecipeCell& cell : recipe.cells) {
    find_data(cell.settings);
    settle_measure(&cell.settings);
    cell.settings.assign("run.name", cell.name, {"the grid"});
  }
  if (arguments.print_config) {
    for (const RecipeCell& cell : recipe.cells) std::cout << "# " << cell.name << "\n" << cell.settings.print() << "\n";
    return;
  }
  for (const RecipeCell& cell : recipe.cells) check_job(cell.settings, context.zoo);

  if (!recipe.title.empty()) std::cerr << recipe.title << "\n";
  ProgressBar progress = ProgressBar::automatic();
  std::vector<Summary> summaries;
  std::vector<std::filesystem::path> folders;
  std::size_t number = 0;
  for (const RecipeCell& cell : recipe.cells) {
    const std::string title = text(++number, "/", recipe.cells.size(), " ", cell.name);
    progress.title(title);
    std::optional<TrainResult> done = find_done(cell.settings);
    if (done) std::cerr << title << ": done before\n";
    if (!done) done = train(cell.settings, "", context.zoo, progress);
    summaries.push_back(done->summary);
    folders.push_back(done->folder);
  }
  if (context.format == "json") {
    std::cout << "[\n";
    for (std::size_t i = 0; i < summaries.size(); ++i) {
      std::string json = to_json(summaries[i]);
      json.pop_back();  // the line break
      std::cout << json << (i + 1 < summaries.size() ? ",\n" : "\n");
    }
    std::cout << "]\n";
  } else {
    std::cout << compare_table(summaries);
    if (!recipe.published.empty()) print_published(recipe.published, folders);
  }
}

}  // namespace

void add_compare(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand("compare", "Run all cells of a recipe's [grid] and compare them; done cells are not run again");
  add_recipe(*command, *arguments, true);
  command->add_option("--only", arguments->only, "run these cells alone, e.g. --only ring-int8,ddp-int8")->type_name("CELL,..")->delimiter(',')->allow_extra_args(false);
  add_format(*command, context);
  command->callback([arguments, &context] { context.chosen = [arguments, &context] { run_compare(*arguments, context); }; });
}

}  // namespace ripieno
