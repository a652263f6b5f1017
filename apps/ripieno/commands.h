// The program's commands: each is in its own file (NAME_command.cpp), which adds its options and its action to the
// command line.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <iomanip>
#include <string>
#include <string_view>
#include <vector>

#include "ripieno/core/error.h"
#include "ripieno/model/zoo.h"

namespace ripieno::program {

struct RecipeCell;

/// The context of every command. Outlives the command line.
struct CommandContext {
  const model::Zoo& zoo;
  std::string format = "text";   ///< "text" or "json"
  std::function<void()> chosen;  ///< set by the command that the user chose
};

/// Like CLI::Range, but nan is in no range. Its words give the ends with so many places.
inline CLI::Validator number_from(double least, double most, int places = 0) {
  const auto check = [least, most, places](const std::string& word) {
    double number = 0;
    const bool is_in = CLI::detail::lexical_cast(word, number) && number >= least && number <= most;
    if (is_in) return std::string();
    return text("Value ", word, " not in range ", std::fixed, std::setprecision(places), least, " to ",
                std::setprecision(0), most);
  };
  return CLI::Validator(check, "FLOAT");
}

/// Whether `--set SET` is of this key.
inline bool is_of_key(std::string_view set, std::string_view key) {
  const std::string_view before = set.substr(0, set.find('='));
  const std::size_t begin = before.find_first_not_of(' '), end = before.find_last_not_of(' ');
  return begin != before.npos && before.substr(begin, end + 1 - begin) == key;
}

/// Refuses `--set KEY=..` beside `otherwise`, which says the same key.
inline void refuse_twice(const std::vector<std::string>& sets, const std::string& key, const std::string& otherwise) {
  for (const std::string& set : sets) {
    if (!is_of_key(set, key)) continue;
    fail(ErrorKind::usage, "--set ", set, " and ", otherwise, " both say ", key, "; leave one out");
  }
}

/// `--format text|json`
void add_format(CLI::App& command, CommandContext& context);
/// `[RECIPE] --scale NAME --set KEY=VALUE ... --print-config`
struct RecipeArguments {
  std::string recipe, scale;
  std::vector<std::string> sets;
  bool print_config = false;
};
void add_recipe(CLI::App& command, RecipeArguments& arguments, bool required);

/// Reports given keys that have no effect in any of a recipe's cells: Error(usage) for those on the command line, else
/// a line for each on standard error. First adds to the cells the keys that have no effect with their models.
void tell_idle(std::vector<RecipeCell>& cells, const model::Zoo& zoo, bool aloud = true);

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
void add_agent(CLI::App& app, CommandContext& context);
void add_lab(CLI::App& app, CommandContext& context);
/// Hidden: the launcher starts it.
void add_worker(CLI::App& app, CommandContext& context);

}  // namespace ripieno::program
