#include <algorithm>
#include <iostream>
#include <memory>

#include "apps/ripieno/commands.h"
#include "apps/ripieno/job.h"
#include "apps/ripieno/program_runs.h"
#include "apps/ripieno/recipe.h"
#include "ripieno/codec/codec.h"
#include "ripieno/core/file.h"
#include "ripieno/launch/process.h"
#include "ripieno/report/format.h"
#include "ripieno/report/loop_file.h"
#include "ripieno/report/report.h"
#include "ripieno/report/step_timeline.h"
#include "ripieno/report/tensorboard.h"

namespace ripieno::program {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::vector<std::string> runs;
  std::string format = "html", output, title, beside;
  std::optional<std::uint64_t> step;
};

/// A run's settings, if its loop.json is there, or its config.toml can be read; one of an earlier version may have
/// other keys.
void know_settings(report::Run* run) {
  const RunFolder folder(run->folder);
  if (fs::exists(folder.loop())) {
    run->settings = report::read_loop(folder.loop()).settings;
    run->own_loop = true;
    return;
  }
  Settings settings;
  try {
    settings.load(folder.config());
    run->exact = is_exact(settings);
  } catch (const Error&) {
    return;
  }
  for (const Setting& setting : all_settings()) run->settings[setting.key] = to_toml(settings.value(setting.key));
}

/// Reads a finished run.
report::Run read_finished_run(const fs::path& folder) {
  report::Run run = report::read_run(folder);
  know_settings(&run);
  return run;
}

/// What is known of a run before it ends.
report::Summary described_in(const RunFolder& folder) {
  if (fs::exists(folder.loop())) return report::read_loop(folder.loop()).known;
  Settings settings;
  settings.load(folder.config());
  report::Summary known;
  known.strategy = std::string(strategy_of(settings).name);
  known.name = settings->run.name.empty() ? known.strategy : settings->run.name;
  known.kind = kind_of(settings);
  known.codec = plan_of(settings).exchange.codec.name;
  known.model = settings->model;
  known.dataset = settings->data_name;
  known.world_size = ranks_of(settings);
  known.seed = settings->seed;
  return known;
}

/// Reads a run that was killed or still runs.
report::Run read_unfinished_run(const fs::path& folder) {
  report::Run run = report::read_unfinished(folder, described_in(RunFolder(folder)));
  know_settings(&run);
  return run;
}

/// The runs in a folder, in order. Unfinished runs are included as far as they can be shown. Those that cannot be read,
/// or have nothing to show, are reported.
std::vector<report::Run> read_all(const std::vector<fs::path>& folders) {
  std::vector<report::Run> runs;
  for (const fs::path& folder : folders) {
    try {
      runs.push_back(report::is_finished(folder) ? read_finished_run(folder) : read_unfinished_run(folder));
    } catch (const Error& error) {
      std::cerr << "left out: " << error.what() << "\n";
    }
  }
  if (runs.empty()) fail(ErrorKind::data, folders[0].parent_path().string(), ": none of its runs can be shown");
  return runs;
}

/// The folders themselves, or the runs in them.
std::vector<report::Run> read_runs(const std::vector<std::string>& paths) {
  std::vector<report::Run> runs;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path))
      fail(ErrorKind::usage, path, ": there is no such folder; give a run's folder, or one that holds runs");
    std::vector<fs::path> inside;
    for (const auto& entry : fs::directory_iterator(path)) {
      if (report::is_finished(entry.path()) || RunFolder::is_one(entry.path())) inside.push_back(entry.path());
    }
    std::sort(inside.begin(), inside.end());
    if (report::is_finished(path) || (inside.empty() && !RunFolder::is_one(path))) {
      runs.push_back(read_finished_run(path));
    } else if (RunFolder::is_one(path)) {
      runs.push_back(read_unfinished_run(path));
    } else {
      for (report::Run& run : read_all(inside)) runs.push_back(std::move(run));
    }
  }
  return runs;
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
  if (!recipe.title.empty()) report->lead = recipe.title + ". " + report->lead;
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

void run_report(const ReportArguments& arguments) {
  if (arguments.format == "tensorboard") {
    for (const auto& [option, is_given] : {std::pair("--beside", !arguments.beside.empty()),
                                           {"--title", !arguments.title.empty()},
                                           {"--step", arguments.step.has_value()}}) {
      if (is_given)
        fail(ErrorKind::usage, option,
             " has no effect with --format tensorboard, whose files hold runs alone; leave it out");
    }
    return write_events(read_runs(arguments.runs), arguments.output.empty() ? "tensorboard" : arguments.output);
  }
  const std::vector<report::Run> runs = read_runs(arguments.runs);
  report::Report report = report::report_of(runs, arguments.title.empty() ? "Runs" : arguments.title);
  report.drawings = report::step_drawings(runs, arguments.step);
  if (!arguments.beside.empty()) show_published(load_recipe(arguments.beside, {}), runs, &report);
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
    write(report::report_csv(report));
  } else {
    write(report::report_json(report));
  }
}

}  // namespace

void add_report(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand(
      "report", "Show finished runs: one HTML page with tables and figures; or Markdown, CSV, JSON, PNG");
  command->add_option("runs", arguments->runs, "run folders, or folders that hold runs")
      ->required()
      ->type_name("RUN ...");
  command
      ->add_option("--format", arguments->format,
                   "html, md, csv, json; png: the first screen as summary.png and a file a figure, drawn by Chromium; "
                   "tensorboard: event files")
      ->check(CLI::IsMember({"html", "md", "csv", "json", "png", "tensorboard"}))
      ->capture_default_str();
  command
      ->add_option("-o,--output", arguments->output,
                   "the file, for png and tensorboard the folder; default: report.html, report/, tensorboard/, or "
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
  command->add_option("--title", arguments->title, "of the page; default: Runs")->type_name("TEXT");
  command->callback([arguments, &context] { context.chosen = [arguments] { run_report(*arguments); }; });
}

}  // namespace ripieno::program
