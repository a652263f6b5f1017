#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <set>

#include "apps/ripieno/choose_exchange.h"
#include "apps/ripieno/chosen_cells.h"
#include "apps/ripieno/commands.h"
#include "apps/ripieno/done_runs.h"
#include "apps/ripieno/job.h"
#include "apps/ripieno/long_words.h"
#include "apps/ripieno/match_step.h"
#include "apps/ripieno/on_hosts.h"
#include "apps/ripieno/program_runs.h"
#include "apps/ripieno/read_runs.h"
#include "apps/ripieno/train.h"
#include "apps/ripieno/worker.h"
#include "ripieno/launch/local.h"
#include "ripieno/launch/placement.h"
#include "ripieno/launch/shell.h"
#include "ripieno/report/compare.h"
#include "ripieno/report/format.h"
#include "ripieno/report/published.h"
#include "ripieno/report/statistics.h"
#include "ripieno/report/table.h"

namespace ripieno::program {
namespace {

void print_published(const std::vector<report::Published>& published, const std::vector<report::Run>& runs) {
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
  std::optional<std::string> match;  ///< "step=TIME"; none: computes as fast as it does
};

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
  std::cerr << without_long_words(
                   text("ripieno: cell ", one.name, " ", what, others_run ? ", the others run: " : ": ", one.reason))
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

/// After an interrupt; `saved`: of the run that it ended.
launch::Interrupted interrupted(int signal, const std::string& saved,
                                const std::vector<std::optional<TrainResult>>& results) {
  const auto done = std::count_if(results.begin(), results.end(), [](const auto& one) { return one.has_value(); });
  std::string command = "ripieno";
  const std::vector<std::string> words = own_command_line();
  for (std::size_t i = 1; i < words.size(); ++i) command += " " + launch::shell_word(words[i]);
  const std::string this_one = saved.empty() ? "" : text(", this one is not: ", saved);
  return launch::Interrupted(signal, text(done, " of ", results.size(), " runs are done", this_one), command);
}

/// A run that ended before its time goes on, unless its state is of no use.
TrainResult run_cell(const RecipeCell& cell, const std::string& saved, const model::Zoo& zoo, ProgressBar& progress,
                     int* signal) {
  if (saved.empty()) return train(cell.settings, "", zoo, progress, signal);
  try {
    progress.line("goes on from " + saved);
    return train(cell.settings, saved, zoo, progress, signal);
  } catch (const Error& error) {
    const bool is_of_state =
        error.kind() == ErrorKind::usage || error.kind() == ErrorKind::data || error.kind() == ErrorKind::mismatch;
    if (!is_of_state || *signal > 0) throw;
    progress.line(text("begins anew, since it cannot go on from there: ", error.what()));
    return train(cell.settings, "", zoo, progress, signal);
  }
}

/// Runs the cells that were not run before. A failing cell does not end the grid; a full disk or an interrupt does.
Done run_cells(const Recipe& recipe, const model::Zoo& zoo, ProgressBar& progress) {
  std::vector<std::optional<TrainResult>> results;
  std::vector<std::string> saved;
  DoneRuns before;
  for (const RecipeCell& cell : recipe.cells) {
    const auto folder = before.find(cell.settings);
    results.push_back(folder ? std::optional(TrainResult{*folder, report::read_summary(RunFolder(*folder).summary())})
                             : std::nullopt);
    saved.push_back(folder ? "" : before.find_saved(cell.settings).value_or("").string());
  }
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
      int signal = 0;
      try {
        results[i] = run_cell(cell, saved[i], zoo, progress, &signal);
      } catch (const launch::Interrupted& end) {
        throw interrupted(end.signal(), end.saved(), results);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::io || recipe.cells.size() == 1) throw;
        progress.clear();
        done.failed.push_back({cell.name, error.what(), error.kind()});
        tell(done.failed.back(), "failed", signal == 0 && i + 1 < recipe.cells.size());
      }
      if (signal > 0) throw interrupted(signal, "", results);
      if (!results[i]) continue;
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

/// The table, what it says, and the way to its page.
void print_results(const Done& done, const Recipe& recipe, const std::vector<RefusedCell>& missing,
                   const CompareArguments& arguments) {
  std::vector<report::Run> runs;
  for (const auto& folder : done.folders) {
    try {
      runs.push_back(read_finished_run(folder));
    } catch (const Error& error) {
      std::cerr << "ripieno: note: what is said below leaves out " << error.what() << "\n";
    }
  }
  const std::vector<report::Conclusion> conclusions = report::conclusions(report::cells(runs));
  std::cout << report::compare_table(done.summaries, conclusions) << "\n" << report::str(conclusions) << std::flush;
  for (const RefusedCell& one : missing) std::cout << "not here: " << one.name << ": " << one.reason << "\n";
  if (!recipe.published.empty()) print_published(recipe.published, runs);
  std::set<std::string> folders;
  for (const auto& folder : done.folders) folders.insert(folder.parent_path().string());
  std::cout << "\n" << done.folders.size() << (done.folders.size() == 1 ? " run in " : " runs in ");
  for (const std::string& folder : folders) std::cout << (folder == *folders.begin() ? "" : ", ") << folder;
  std::cout << "; their page: "
            << command_for("report", {arguments.recipe, arguments.scale, arguments.sets, arguments.only}) << "\n";
}

/// The same with settings that --match finds.
CompareArguments matched(CompareArguments arguments, const model::Zoo& zoo) {
  std::vector<RefusedCell> refused;
  Recipe recipe = load_recipe(arguments.recipe, arguments.sets, arguments.scale, &refused, arguments.only);
  if (!arguments.only.empty()) keep_cells(arguments.only, arguments.recipe, &recipe, &refused);
  for (RecipeCell& cell : recipe.cells) find_data(cell.settings);
  for (std::string& set : matched_settings(*arguments.match, recipe.cells, zoo)) {
    const std::string key = set.substr(0, set.find('=') + 1);
    for (const std::string& given : arguments.sets) {
      if (given.starts_with(key))
        fail(ErrorKind::usage, "--match ", *arguments.match, " finds ", set, ", but --set ", given,
             " is given, too: leave out one");
    }
    arguments.sets.push_back(std::move(set));
  }
  return arguments;
}

void run_compare(CompareArguments arguments, const CommandContext& context) {
  if (arguments.match) arguments = matched(std::move(arguments), context.zoo);
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
    print_results(done, recipe, missing, arguments);
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
  command
      ->add_option("--match", arguments->match,
                   "compute as fast as was published: one worker's step takes so long, by lab.cpu or, in virtual time, "
                   "simulated.slow_all; e.g. --match step=2.23s")
      ->type_name("step=TIME");
  add_format(*command, context);
  command->callback(
      [arguments, &context] { context.chosen = [arguments, &context] { run_compare(*arguments, context); }; });
}

}  // namespace ripieno::program
