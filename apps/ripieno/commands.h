// The program's commands: each in a file of its own (NAME_command.cpp), which adds its options to the command line and
// what is to be done when it is chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "ripieno/model/zoo.h"

namespace ripieno {

/// What every command works with. Outlives the command line.
struct CommandContext {
  const Zoo& zoo;
  std::string format = "text";    ///< "text" or "json"
  std::function<void()> chosen;   ///< set by the command that the user chose
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

void add_train(CLI::App& app, CommandContext& context);
void add_compare(CLI::App& app, CommandContext& context);
void add_explain(CLI::App& app, CommandContext& context);
void add_report(CLI::App& app, CommandContext& context);
void add_watch(CLI::App& app, CommandContext& context);
void add_bench(CLI::App& app, CommandContext& context);
void add_list(CLI::App& app, CommandContext& context);
void add_doctor(CLI::App& app, CommandContext& context);
void add_launch(CLI::App& app, CommandContext& context);
void add_lab(CLI::App& app, CommandContext& context);
/// Hidden: what the launcher starts.
void add_worker(CLI::App& app, CommandContext& context);

}  // namespace ripieno
