#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/ripieno/choose_exchange.h"
#include "apps/ripieno/chosen_cells.h"
#include "apps/ripieno/commands.h"
#include "apps/ripieno/done_runs.h"
#include "apps/ripieno/job.h"
#include "apps/ripieno/launched.h"
#include "apps/ripieno/on_hosts.h"
#include "apps/ripieno/program_runs.h"
#include "apps/ripieno/train.h"
#include "apps/ripieno/worker.h"
#include "ripieno/launch/placement.h"
#include "ripieno/report/compare.h"

namespace ripieno::program {
namespace {

struct TrainArguments {
  RecipeArguments recipe;
  HostArguments hosts;
  int workers = 0;
  std::string strategy, resume, compute, only;
};

/// The recipe's one run, or the cell that --only names.
Settings cell_of(const TrainArguments& arguments, const std::vector<std::string>& sets, const model::Zoo& zoo,
                 bool aloud) {
  const std::string& path = arguments.recipe.recipe;
  const bool chooses = !arguments.only.empty();
  const std::vector<std::string> only(chooses ? 1 : 0, arguments.only);
  std::vector<RefusedCell> refused;
  Recipe recipe = load_recipe(path, sets, arguments.recipe.scale, chooses ? &refused : nullptr, only);
  tell_idle(recipe.cells, zoo, aloud);
  if (chooses) {
    keep_cells(only, path, &recipe, &refused);
    if (!refused.empty()) fail(refused[0].kind, refused[0].reason);
    refuse_idle(recipe.cells);
  }
  if (recipe.cells.size() == 1) return recipe.cells[0].settings;
  fail(ErrorKind::usage, path, ": holds ", recipe.cells.size(), " runs, and train makes one: take one with ",
       chooses ? "--set seeds=1" : "--only " + recipe.cells[0].name, ", or make them all with ripieno compare");
}

/// The folder in which a run's folder is.
std::string folder_of(const std::filesystem::path& run) {
  std::filesystem::path path = run.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.filename() == "." || path.filename() == "..") path = std::filesystem::absolute(path).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.has_parent_path() ? path.parent_path().string() : ".";
}

/// With --resume the settings are those of the resumed run; else a recipe's, or the defaults. `aloud`: prints notes.
Settings settings_of(const TrainArguments& arguments, const model::Zoo& zoo, bool aloud) {
  std::vector<std::string> sets = arguments.recipe.sets;
  const auto add = [&](const char* key, const std::string& value, const std::string& option) {
    refuse_twice(arguments.recipe.sets, key, option);
    sets.push_back(text(key, "=", value));
  };
  if (arguments.workers > 0) add("workers", std::to_string(arguments.workers), text("-n ", arguments.workers));
  if (!arguments.compute.empty()) add("train.compute", arguments.compute, "--compute " + arguments.compute);
  if (!arguments.strategy.empty()) add("strategy", arguments.strategy, "--strategy " + arguments.strategy);
  if (!arguments.recipe.scale.empty() && arguments.recipe.recipe.empty()) {
    fail(ErrorKind::usage, "--scale ", arguments.recipe.scale,
         " has no effect without a recipe, whose scale it is; name the recipe, or leave it out");
  }
  if (!arguments.only.empty() && arguments.recipe.recipe.empty())
    fail(ErrorKind::usage, "--only ", arguments.only, " names a cell of a recipe; name the recipe, or leave it out");
  if (!arguments.resume.empty()) {
    if (!arguments.recipe.recipe.empty())
      fail(ErrorKind::usage, "--resume takes its settings from the run folder; leave the recipe out");
    Recipe run = load_recipe(open_run(arguments.resume).config(), sets);
    Settings& settings = run.cells.at(0).settings;
    if (settings.origin("run.folder") != "--set")  // it may have been moved
      settings.assign("run.folder", folder_of(arguments.resume), {"--resume"});
    tell_idle(run.cells, zoo, aloud);
    return settings;
  }
  if (arguments.recipe.recipe.empty()) {
    Recipe defaults = load_recipe_text("", "defaults", sets);
    tell_idle(defaults.cells, zoo, aloud);
    return defaults.cells.at(0).settings;
  }
  return cell_of(arguments, sets, zoo, aloud);
}

void show(const TrainResult& result, const std::string& format) {
  if (format == "json") {
    std::cout << report::to_json(result.summary);
  } else {
    std::cout << report::compare_table({result.summary}) << result.folder.string() << "\n";
  }
}

/// The settings of a process that makes a job of its own, or is one rank of one.
Settings settled(const TrainArguments& arguments, const CommandContext& context, const launch::Placement& place) {
  Settings settings = settings_of(arguments, context.zoo, place.rank == 0);
  find_data(settings);
  fit_to_world(place, &settings);
  settle_measure(&settings);
  if (!arguments.recipe.print_config) check_job(settings, context.zoo);
  return settings;
}

void train_alone(const TrainArguments& arguments, const CommandContext& context, const Settings& settings) {
  ProgressBar progress = ProgressBar::automatic();
  progress.title(settings->strategy);
  const std::string resume = arguments.resume.empty() ? run_to_go_on_from(settings) : arguments.resume;
  show(train(settings, resume, context.zoo, progress), context.format);
}

/// A launcher of ours shows the progress of its ranks; under others, rank 0 does.
void train_as_rank(const TrainArguments& arguments, const CommandContext& context, const Settings& settings,
                   const launch::Placement& place, launch::Control& control) {
  ProgressBar progress =
      place.rank == 0 && !control.has_listener() ? ProgressBar::automatic() : ProgressBar(ProgressBar::Kind::none);
  progress.title(settings->strategy);
  control.send({{"type", "title"}, {"text", settings->strategy}});
  const TellLauncher tell = [&](const nlohmann::json& message) {
    program::tell(control, message);
    progress.message(0, message);
  };
  std::optional<TrainResult> result;
  try {
    result = train_launched(place, settings, arguments.resume, context.zoo, tell);
  } catch (...) {
    progress.clear();
    throw;
  }
  progress.clear();
  if (result) show(*result, context.format);
}

/// Each worker runs this command there, as under another launcher.
void train_on_hosts(const TrainArguments& arguments) {
  launch::HostsJob job = job_on_hosts(arguments.hosts, arguments.workers);
  job.command = own_command_line();
  ProgressBar progress = ProgressBar::automatic();
  progress.title("train");
  job.saves = true;
  job.on_interrupt = [&](int) { progress.line("interrupted: saves, if the strategy can; once more ends at once"); };
  WayOn more;
  job.on_message = [&](int rank, const nlohmann::json& message) {
    if (message.value("type", "") == "title") {
      progress.title(message.value("text", ""));
    } else if (message.contains("saved")) {
      more = {message.at("saved"), message.at("command")};
    } else {
      progress.message(rank, message);
    }
  };
  job.on_output = [&](int rank, const std::string& line) {
    progress.clear();
    std::cerr << text("[rank ", rank, "] ", line, "\n") << std::flush;
  };
  job.on_loss = [&](const launch::Failure& loss) { progress.loss(loss.error.what()); };
  try {
    launch::run_on_hosts(job);
  } catch (const launch::Interrupted& interrupted) {
    progress.clear();
    throw launch::Interrupted(interrupted.signal(), more.saved, more.command);
  }
  progress.clear();
}

/// Alone, the command starts workers; started by another launcher, as several processes, it is one of them.
void run_train(const TrainArguments& arguments, const CommandContext& context) {
  if (arguments.hosts.are_given() && !arguments.recipe.print_config) return train_on_hosts(arguments);
  const launch::Placement place = launch::placement();
  const auto part = [&](launch::Control* control) {
    const Settings settings = settled(arguments, context, place);
    if (!place.cannot_meet.empty() && !transport::find_transport(settings->transport.kind).has_launcher) {
      fail(ErrorKind::usage, place.cannot_meet);
    }
    if (arguments.recipe.print_config) {
      if (place.rank == 0) std::cout << settings.print();
    } else if (control) {
      train_as_rank(arguments, context, settings, place, *control);
    } else {
      train_alone(arguments, context, settings);
    }
  };
  if (place.world_size == 1) return part(nullptr);
  launch::Control control(place.control_fd);
  as_rank(place.rank, control, [&] { part(&control); });
}

}  // namespace

void add_train(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train one model by one strategy");
  add_recipe(*command, arguments->recipe, false);
  command->add_option("--only", arguments->only, "run this cell of a recipe with a [grid]")->type_name("CELL");
  command->add_option("-n,--workers", arguments->workers, "workers; same as --set workers=N")
      ->check(CLI::Range(1, 4096));
  add_hosts(*command, arguments->hosts);
  command->add_option("--strategy", arguments->strategy, "same as --set strategy=NAME; see ripieno list strategies");
  command
      ->add_option("--compute", arguments->compute,
                   "real; replay: wait for times measured once; same as --set train.compute=KIND")
      ->check(CLI::IsMember({"real", "replay"}));
  command->add_option("--resume", arguments->resume, "resume from a run's folder, e.g. with --set train.epochs=10")
      ->type_name("RUN");
  add_format(*command, context);
  command->callback(
      [arguments, &context] { context.chosen = [arguments, &context] { run_train(*arguments, context); }; });
}

void add_worker(CLI::App& app, CommandContext& context) {
  struct WorkerArguments {
    std::string folder, resume;
  };
  auto arguments = std::make_shared<WorkerArguments>();
  CLI::App* command = app.add_subcommand("worker", "One rank of a job that a launcher started")->group("");
  command->add_option("folder", arguments->folder, "the run's folder")->required();
  command->add_option("--resume", arguments->resume, "the run folder to resume");
  command->callback([arguments, &context] {
    context.chosen = [arguments, &context] { run_worker(arguments->folder, arguments->resume, context.zoo); };
  });
}

}  // namespace ripieno::program
