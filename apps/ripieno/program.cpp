#include "apps/ripieno/program.h"

#include <iostream>

#include "apps/ripieno/commands.h"
#include "ripieno/core/error.h"
#include "ripieno/launch/local.h"

namespace ripieno {

void add_format(CLI::App& command, CommandContext& context) {
  command.add_option("--format", context.format, "text, or json for programs")->check(CLI::IsMember({"text", "json"}));
}

void add_recipe(CLI::App& command, RecipeArguments& arguments, bool required) {
  auto* recipe = command.add_option("recipe", arguments.recipe, "a recipe, a TOML file; see recipes/");
  if (required) recipe->required();
  command.add_option("--set", arguments.sets, "override a key, e.g. --set train.epochs=5")->type_name("KEY=VALUE")->allow_extra_args(false);
  command.add_flag("--print-config", arguments.print_config, "print every value and where it came from, and do nothing");
}

int run_program(int argc, char** argv, const Zoo& zoo) {
  CLI::App app("Ripieno trains a network on many workers and makes the way in which they agree a value that you swap,\n"
               "measure and predict. Start with: ripieno compare recipes/demo.toml", "ripieno");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.set_version_flag("--version", std::string(RIPIENO_VERSION));
  CommandContext context{zoo, "text", {}};
  add_train(app, context);
  add_compare(app, context);
  add_explain(app, context);
  add_bench(app, context);
  add_list(app, context);
  add_doctor(app, context);
  add_launch(app, context);
  add_worker(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::cerr << "ripieno: " << error.what() << " (see ripieno " << (app.get_subcommands().empty() ? "" : app.get_subcommands()[0]->get_name() + " ")
              << "--help)\n";
    return static_cast<int>(ErrorKind::usage);
  }
  try {
    context.chosen();
    return 0;
  } catch (const Interrupted& interrupted) {
    std::cerr << "ripieno: " << interrupted.what() << "\n";
    return 128 + interrupted.signal();
  } catch (const Error& error) {
    std::cerr << "ripieno: " << error.what() << "\n";
    return static_cast<int>(error.kind());
  } catch (const std::exception& error) {
    const std::string what = error.what();
    std::cerr << "ripieno: internal error: " << what.substr(0, what.find('\n')) << "\n";
    return static_cast<int>(ErrorKind::internal);
  }
}

}  // namespace ripieno
