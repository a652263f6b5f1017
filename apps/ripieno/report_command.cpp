#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>

#include "apps/ripieno/chosen_cells.h"
#include "apps/ripieno/commands.h"
#include "apps/ripieno/done_runs.h"
#include "apps/ripieno/read_runs.h"
#include "ripieno/core/file.h"
#include "ripieno/launch/process.h"
#include "ripieno/report/format.h"
#include "ripieno/report/report.h"
#include "ripieno/report/step_timeline.h"
#include "ripieno/report/tensorboard.h"

namespace ripieno::program {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::vector<std::string> runs, sets, only;  ///< runs: folders, or recipes; sets, only: of the recipes
  std::string format = "html", output, title, beside, scale;
  std::optional<std::uint64_t> step;
};

bool is_recipe(const std::string& path) { return fs::is_regular_file(path); }

/// The runs that `compare` has done of a recipe, one a cell and seed. Says which are not there.
std::vector<report::Run> runs_of(const Recipe& recipe, const ReportArguments& arguments, const std::string& path) {
  std::vector<report::Run> runs;
  DoneRuns done;
  std::size_t missing = 0;
  for (RecipeCell cell : recipe.cells) {
    std::optional<fs::path> folder;
    try {
      settle(&cell);
      folder = done.find(cell.settings);
    } catch (const Error& error) {
      std::cerr << "left out: " << cell.name << ": " << error.what() << "\n";
      continue;
    }
    if (folder) runs.push_back(read_finished_run(*folder));
    missing += !folder;
  }
  if (runs.empty())
    fail(ErrorKind::data, path, ": none of its ", recipe.cells.size(), " runs has ended with these settings in ",
         recipe.base->run.folder,
         "; run them: ", command_for("compare", {path, arguments.scale, arguments.sets, arguments.only}));
  if (missing > 0)
    std::cerr << "ripieno: note: " << missing << " of " << recipe.cells.size() << " runs of " << path
              << " are not there yet\n";
  return runs;
}

/// All runs, in the order given; and the recipe, if one alone is given.
struct Given {
  std::vector<report::Run> runs;
  std::optional<Recipe> recipe;
};
Given read_given(const ReportArguments& arguments) {
  const auto recipes = std::count_if(arguments.runs.begin(), arguments.runs.end(), is_recipe);
  for (const auto& [option, is_given] : {std::pair("--set", !arguments.sets.empty()),
                                         {"--scale", !arguments.scale.empty()},
                                         {"--only", !arguments.only.empty()}}) {
    if (is_given && recipes == 0)
      fail(ErrorKind::usage, option, " is for the runs of a recipe, and only folders are given; name the recipe");
  }
  Given given;
  for (const std::string& path : arguments.runs) {
    std::vector<report::Run> more;
    if (is_recipe(path)) {
      std::vector<RefusedCell> refused;
      Recipe recipe = load_recipe(path, arguments.sets, arguments.scale, &refused, arguments.only);
      if (!arguments.only.empty()) keep_cells(arguments.only, path, &recipe, &refused);
      more = runs_of(recipe, arguments, path);
      if (arguments.runs.size() == 1) given.recipe = std::move(recipe);
    } else {
      more = read_runs({path});
    }
    std::move(more.begin(), more.end(), std::back_inserter(given.runs));
  }
  return given;
}

/// Draws a part of the page with Chromium, headless. As root it does not run with its sandbox, which our own page does
/// not need.
void draw(const fs::path& page, const std::string& part, int width, int height, const fs::path& png) {
  fs::remove(png);
  const std::vector<std::string> command{
      "chromium",
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--hide-scrollbars",
      "--force-device-scale-factor=2",
      text("--window-size=", width, ",", height),
      "--virtual-time-budget=4000",
      "--screenshot=" + fs::absolute(png).string(),
      "file://" + report::percent_encoded(fs::absolute(page).string()) + "#only=" + part};
  try {
    launch::run_tool(command);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage) throw;
    fail(ErrorKind::usage, "--format png draws with Chromium, which cannot be run (", error.what(),
         "): install it (apt-get install chromium), or take --format html");
  }
  if (!fs::exists(png)) fail(ErrorKind::io, png.string(), ": Chromium drew nothing");
  if (!read_file(png).ends_with("IEND\xAE\x42\x60\x82"))
    fail(ErrorKind::io, png.string(), ": Chromium wrote a part of it; is the disk full?");
  std::cerr << png.string() << "\n";
}

/// Draws the first screen and every figure; figures of single runs only if there is one run.
void write_pngs(const report::Report& report, std::size_t runs, const fs::path& folder) {
  create_folders(folder);
  const fs::path page = folder / "report.html";
  write_file(page, report::html_page(report, folder));
  draw(page, "summary", 1200, report::summary_height(report), folder / "summary.png");
  for (const report::Figure& figure : report.figures) {
    if (figure.run.empty() || runs == 1)
      draw(page, figure.id, 1000, report::pictured_height(figure), folder / (figure.id + ".png"));
  }
  for (const report::Drawing& drawing : report.drawings)
    draw(page, drawing.id, drawing.width + 40, drawing.height + 60, folder / (drawing.id + ".png"));
}

/// The title of the recipe's runs, and the published results.
void show_published(const Recipe& recipe, const std::vector<report::Run>& runs, report::Report* report) {
  if (!recipe.title.empty() && recipe.title != report->title) report->lead = recipe.title + ". " + report->lead;
  const std::vector<report::ReportTable> tables = report::published_tables(recipe.published, runs);
  if (tables.empty() && !recipe.published.empty())
    std::cerr << "ripieno: note: none of these runs has the name of a row that the recipe gives as published\n";
  report->tables.insert(report->tables.begin(), tables.begin(), tables.end());
}

/// Makes a folder for each run with a folder for each rank, as TensorBoard expects.
void write_events(const std::vector<report::Run>& runs, const fs::path& folder) {
  const char* name = "events.out.tfevents.0.ripieno";
  create_folders(folder);
  write_file(folder / name, report::tensorboard_experiment(runs));
  for (const report::Run& run : runs) {
    create_folders(folder / report::folder_name(run.folder));
    write_file(folder / report::folder_name(run.folder) / name, report::tensorboard_session(run, runs));
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      const fs::path place = folder / report::folder_name(run.folder) / text("rank-", rank);
      create_folders(place);
      write_file(place / name, report::tensorboard_events(run.ranks[rank]));
    }
  }
  std::cerr << folder.string() << ": tensorboard --logdir " << folder.string() << "\n";
}

void write_csvs(const report::Report& report, const fs::path& folder) {
  create_folders(folder);
  const std::vector<report::CsvFile> files = report::report_csv(report);
  for (const report::CsvFile& file : files) write_file(folder / file.name, file.content);
  std::cerr << folder.string() << ": " << files.size() << " files, a table each\n";
}

void run_report(const ReportArguments& arguments) {
  if (arguments.format == "tensorboard") {
    for (const auto& [option, is_given] : {std::pair("--beside", !arguments.beside.empty()),
                                           {"--title", !arguments.title.empty()},
                                           {"--step", arguments.step.has_value()}}) {
      if (is_given)
        fail(ErrorKind::usage, option,
             " has no effect with --format tensorboard, whose files hold runs alone; leave it out");
    }
    return write_events(read_given(arguments).runs, arguments.output.empty() ? "tensorboard" : arguments.output);
  }
  const Given given = read_given(arguments);
  const std::vector<report::Run>& runs = given.runs;
  const std::string own = given.recipe && !given.recipe->title.empty() ? given.recipe->title : "Runs";
  report::Report report = report::report_of(runs, arguments.title.empty() ? own : arguments.title);
  report.drawings = report::step_drawings(runs, arguments.step);
  if (!arguments.beside.empty()) {
    show_published(load_recipe(arguments.beside, {}), runs, &report);
  } else if (given.recipe && !given.recipe->published.empty()) {
    show_published(*given.recipe, runs, &report);
  }
  const bool is_drawn = arguments.format == "html" || arguments.format == "png";
  for (const report::Drawing& drawing : report.drawings) {
    if (!is_drawn) report.tables.push_back(drawing.numbers);
  }
  const auto write = [&](const std::string& content) {
    if (arguments.output.empty()) {
      std::cout << content;
    } else {
      write_file(arguments.output, content);
      std::cerr << arguments.output << "\n";
    }
  };
  if (arguments.format == "html") {
    const fs::path file = arguments.output.empty() ? "report.html" : arguments.output;
    write_file(file, report::html_page(report, file.parent_path()));
    std::cout << report::str(report.conclusions);
    std::cerr << file.string() << ": open it in a browser\n";
  } else if (arguments.format == "png") {
    write_pngs(report, runs.size(), arguments.output.empty() ? "report" : arguments.output);
  } else if (arguments.format == "md") {
    write(report::report_markdown(report));
  } else if (arguments.format == "csv") {
    write_csvs(report, arguments.output.empty() ? "report" : arguments.output);
  } else {
    write(report::report_json(report));
  }
}

}  // namespace

void add_report(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand(
      "report", "Show finished runs: one HTML page with tables and figures; or Markdown, CSV, JSON, PNG");
  command
      ->add_option("runs", arguments->runs, "run folders, folders that hold runs, or recipes, whose own runs are shown")
      ->required()
      ->type_name("RUN ...");
  command->add_option("--scale", arguments->scale, "of a recipe: the scale that its runs were made with")
      ->type_name("NAME");
  command->add_option("--set", arguments->sets, "of a recipe: a key that its runs were made with")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--only", arguments->only, "of a recipe: only these cells")
      ->type_name("CELL,..")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option(
          "--format", arguments->format,
          "html, md, json; csv: a file for each table and figure; png: the first screen as summary.png and a file "
          "a figure, drawn by Chromium; tensorboard: event files")
      ->check(CLI::IsMember({"html", "md", "csv", "json", "png", "tensorboard"}))
      ->capture_default_str();
  command
      ->add_option("-o,--output", arguments->output,
                   "the file, for csv, png and tensorboard the folder; default: report.html, report/, tensorboard/, or "
                   "standard output")
      ->type_name("PATH");
  command
      ->add_option("--beside", arguments->beside,
                   "a recipe, whose published numbers are shown beside those of its runs")
      ->type_name("RECIPE");
  command
      ->add_option("--step", arguments->step,
                   "of runs with run.trace = true: the step that is drawn as a timeline of all ranks; default: one in "
                   "the middle of the last epoch")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  command->add_option("--title", arguments->title, "of the page; default: the recipe's, or Runs")->type_name("TEXT");
  command->callback([arguments, &context] { context.chosen = [arguments] { run_report(*arguments); }; });
}

}  // namespace ripieno::program
