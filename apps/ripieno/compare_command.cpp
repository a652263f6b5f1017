#include <algorithm>
#include <iostream>
#include <memory>

#include "apps/ripieno/choose_exchange.h"
#include "apps/ripieno/chosen_cells.h"
#include "apps/ripieno/commands.h"
#include "apps/ripieno/job.h"
#include "apps/ripieno/program_runs.h"
#include "apps/ripieno/train.h"
#include "apps/ripieno/worker.h"
#include "ripieno/core/file.h"
#include "ripieno/launch/placement.h"
#include "ripieno/report/compare.h"
#include "ripieno/report/format.h"
#include "ripieno/report/published.h"
#include "ripieno/report/statistics.h"
#include "ripieno/report/table.h"

namespace ripieno::program {
namespace {

/// The finished run with exactly these given settings, if the run folders have one.
std::optional<TrainResult> find_done(const Settings& settings) {
  const std::filesystem::path runs = settings->run.folder;
  if (!std::filesystem::is_directory(runs)) return {};
  const std::string wanted = settings.to_toml();
  for (const auto& entry : std::filesystem::directory_iterator(runs)) {
    if (!std::filesystem::exists(entry.path() / "config.toml")) continue;
    const RunFolder run = open_run(entry.path());
    if (!std::filesystem::exists(run.summary())) continue;
    if (std::filesystem::exists(run.path() / "resumed_from")) continue;  // only a part of a run
    const bool chose = std::filesystem::exists(run.asked());
    if (read_file(chose ? run.asked() : run.config()) == wanted)
      return TrainResult{run.path(), report::read_summary(run.summary())};
  }
  return {};
}

void print_published(const std::vector<report::Published>& published,
                     const std::vector<std::filesystem::path>& folders) {
  std::vector<report::Run> runs;
  for (const auto& folder : folders) runs.push_back(report::read_run(folder));
  for (const report::ReportTable& found : report::published_tables(published, runs)) {
    report::Table table;
    for (const auto& column : found.columns)
      table.column(column.title, column.is_text ? report::Align::left : report::Align::right);
    for (const auto& row : found.rows) {
      std::vector<std::string> cells;
      for (const report::ReportCell& cell : row) cells.push_back(cell.text);
      table.row(std::move(cells));
    }
    std::cout << "\n" << found.title << "\n" << table.str() << (found.caption.empty() ? "" : found.caption + "\n");
  }
}

struct CompareArguments : RecipeArguments {
  std::vector<std::string> only;
};

/// Prepares a cell for running. Throws its errors.
void settle(RecipeCell* cell) {
  find_data(cell->settings);
  settle_measure(&cell->settings);
  cell->settings.assign("run.name", cell->name, {"the grid"});
}

/// Removes cells that cannot be run from the recipe, and settles the others. Cells of one name differ only in their
/// seed, so they are reported once. Throws the error if all cells have the same one.
void take_refused(Recipe* recipe, const model::Zoo& zoo, std::vector<RefusedCell>* refused) {
  std::vector<RecipeCell> kept;
  for (RecipeCell& cell : recipe->cells) {
    try {
      settle(&cell);
      check_job(cell.settings, zoo);
      kept.push_back(std::move(cell));
    } catch (const Error& error) {
      if (refused->empty() || refused->back().name != cell.name)
        refused->push_back({cell.name, error.what(), error.kind()});
    }
  }
  recipe->cells = std::move(kept);
  const bool alike = std::all_of(refused->begin(), refused->end(),
                                 [&](const RefusedCell& one) { return one.reason == refused->front().reason; });
  if (recipe->cells.empty() && alike) fail(refused->at(0).kind, refused->front().reason);
}

void tell(const RefusedCell& one, const char* what, bool others_run) {
  std::cerr << "ripieno: cell " << one.name << " " << what << (others_run ? ", the others run: " : ": ") << one.reason
            << "\n";
}

/// The runs of a grid, done now or before.
struct Done {
  std::vector<report::Summary> summaries;
  std::vector<std::filesystem::path> folders;
  std::vector<RefusedCell> failed;
};

std::string outcome(const report::Summary& summary, double seconds) {
  const std::string score =
      summary.test ? report::format_percent(summary.test->accuracy, 2) + " of the test set, " : "";
  return text("done, ", score, report::format_seconds(seconds),
              summary.not_finite ? "; " + report::described(*summary.not_finite) : "");
}

/// Runs the cells that were not run before. A failing cell does not end the grid; a full disk or an interrupt does.
Done run_cells(const Recipe& recipe, const model::Zoo& zoo, ProgressBar& progress) {
  std::vector<std::optional<TrainResult>> results;
  for (const RecipeCell& cell : recipe.cells) results.push_back(find_done(cell.settings));
  auto left = static_cast<std::size_t>(
      std::count_if(results.begin(), results.end(), [](const auto& result) { return !result; }));
  Done done;
  std::vector<double> took;
  for (std::size_t i = 0; i < recipe.cells.size(); ++i) {
    const RecipeCell& cell = recipe.cells[i];
    const std::string name = text(i + 1, "/", recipe.cells.size(), " ", cell.name);
    progress.title(progress.is_bar() ? text(name, ", seed ", cell.settings->seed) : name);
    if (results[i]) {
      progress.line("done before");
    } else {
      progress.runs_after(--left, took.empty() ? std::optional<double>() : report::mean(took));
      try {
        results[i] = train(cell.settings, "", zoo, progress);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::io || recipe.cells.size() == 1) throw;
        progress.clear();
        done.failed.push_back({cell.name, error.what(), error.kind()});
        tell(done.failed.back(), "failed", i + 1 < recipe.cells.size());
        continue;
      }
      took.push_back(progress.elapsed());
      if (progress.is_bar()) progress.line(outcome(results[i]->summary, took.back()));
    }
    done.summaries.push_back(results[i]->summary);
    done.folders.push_back(results[i]->folder);
  }
  return done;
}

void print_json(const std::vector<report::Summary>& summaries) {
  std::cout << "[\n";
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    std::string json = report::to_json(summaries[i]);
    json.pop_back();  // the line break
    std::cout << json << (i + 1 < summaries.size() ? ",\n" : "\n");
  }
  std::cout << "]\n";
}

void run_compare(const CompareArguments& arguments, const CommandContext& context) {
  std::vector<RefusedCell> missing;
  Recipe recipe = load_recipe(arguments.recipe, arguments.sets, arguments.scale,
                              arguments.print_config ? nullptr : &missing, arguments.only);
  tell_idle(recipe.cells, context.zoo);
  if (!arguments.only.empty()) {
    keep_cells(arguments.only, arguments.recipe, &recipe, &missing);
    refuse_idle(recipe.cells);
  }
  if (arguments.print_config) {
    for (RecipeCell& cell : recipe.cells) {
      settle(&cell);
      std::cout << "# " << cell.name << "\n" << cell.settings.print() << "\n";
    }
    return;
  }
  launch::check_environment();
  take_refused(&recipe, context.zoo, &missing);
  for (const RefusedCell& one : missing) tell(one, "is refused", !recipe.cells.empty());
  Done done;
  if (!recipe.cells.empty()) {
    if (!recipe.title.empty()) std::cerr << recipe.title << "\n";
    ProgressBar progress = ProgressBar::automatic();
    done = run_cells(recipe, context.zoo, progress);
  }
  missing.insert(missing.end(), done.failed.begin(), done.failed.end());
  if (context.format == "json") {
    print_json(done.summaries);
  } else if (!done.summaries.empty()) {
    std::cout << report::compare_table(done.summaries) << std::flush;
    for (const RefusedCell& one : missing) std::cout << "not here: " << one.name << ": " << one.reason << "\n";
    if (!recipe.published.empty()) print_published(recipe.published, done.folders);
  }
  if (!missing.empty()) throw Reported{missing[0].kind};
}

}  // namespace

void add_compare(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand(
      "compare", "Run all cells of a recipe's [grid] and compare them; done cells are not run again");
  add_recipe(*command, *arguments, true);
  command->add_option("--only", arguments->only, "run only these cells, e.g. --only ring-int8,ddp-int8")
      ->type_name("CELL,..")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_format(*command, context);
  command->callback(
      [arguments, &context] { context.chosen = [arguments, &context] { run_compare(*arguments, context); }; });
}

}  // namespace ripieno::program
