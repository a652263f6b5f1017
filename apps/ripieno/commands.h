// The program's commands: each in a file of its own (NAME_command.cpp), which adds its options to the command line and
// what is to be done when it is chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "ripieno/model/zoo.h"

namespace ripieno::program {

struct RecipeCell;

/// What every command works with. Outlives the command line.
struct CommandContext {
  const model::Zoo& zoo;
  std::string format = "text";   ///< "text" or "json"
  std::function<void()> chosen;  ///< set by the command that the user chose
};

/// `--format text|json`
void add_format(CLI::App& command, CommandContext& context);
/// `[RECIPE] --scale NAME --set KEY=VALUE ... --print-config`
struct RecipeArguments {
  std::string recipe, scale;
  std::vector<std::string> sets;
  bool print_config = false;
};
void add_recipe(CLI::App& command, RecipeArguments& arguments, bool required);

/// What was given and has no effect in any of a recipe's cells: refused where the command line says it (Error(usage)),
/// else told on standard error in a line for each key. Adds to the cells what their models leave without effect.
void tell_idle(std::vector<RecipeCell>& cells, const model::Zoo& zoo);

void add_train(CLI::App& app, CommandContext& context);
void add_compare(CLI::App& app, CommandContext& context);
void add_advise(CLI::App& app, CommandContext& context);
void add_explain(CLI::App& app, CommandContext& context);
void add_report(CLI::App& app, CommandContext& context);
void add_watch(CLI::App& app, CommandContext& context);
void add_help(CLI::App& app, CommandContext& context);
void add_bench(CLI::App& app, CommandContext& context);
void add_list(CLI::App& app, CommandContext& context);
void add_doctor(CLI::App& app, CommandContext& context);
void add_launch(CLI::App& app, CommandContext& context);
void add_lab(CLI::App& app, CommandContext& context);
/// Hidden: what the launcher starts.
void add_worker(CLI::App& app, CommandContext& context);

}  // namespace ripieno::program
