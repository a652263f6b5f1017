#include "apps/ripieno/program.h"

#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "apps/ripieno/commands.h"
#include "apps/ripieno/long_words.h"
#include "apps/ripieno/standard_output.h"
#include "apps/ripieno/suggest.h"
#include "apps/ripieno/worker.h"
#include "ripieno/core/error.h"
#include "ripieno/launch/local.h"
#include "ripieno/launch/nursery.h"
#include "ripieno/train/torch_error.h"

namespace ripieno::program {

namespace {

constexpr const char* verbose_variable = "RIPIENO_VERBOSE";

/// "-n,--ranks N", with the default after the description: CLI11 would print "INT:INT in [1 - 512]=4".
class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat() { column_width(24); }

  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_name();
    if (type.empty() || option->get_positional()) return "";
    const std::string plain = type.substr(0, type.find(':'));
    return " " + (plain == "INT" || plain == "UINT" || plain == "FLOAT" ? "N" : plain);
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string standard = option->get_default_str();
    return option->get_description() + (standard.empty() ? "" : " (" + standard + ")");
  }
};

/// The unknown word where the command line should name a command; empty if it names one, or nothing.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  const auto named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
  return app.get_subcommands(named).empty() ? argv[1] : "";
}

}  // namespace

void add_format(CLI::App& command, CommandContext& context) {
  command.add_option("--format", context.format, "text, or json for programs")->check(CLI::IsMember({"text", "json"}));
}

void add_recipe(CLI::App& command, RecipeArguments& arguments, bool required) {
  auto* recipe = command.add_option("recipe", arguments.recipe, "a recipe, a TOML file; see recipes/");
  if (required) recipe->required();
  command.add_option("--scale", arguments.scale, "one of the recipe's scales, e.g. quick")->type_name("NAME");
  command.add_option("--set", arguments.sets, "override a key, e.g. --set train.epochs=5")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  const auto in_full = [] {
    ::setenv(verbose_variable, "1", 1);  // for the workers
    train::print_errors_in_full();
  };
  command.add_flag_callback("--verbose", in_full, "print errors of LibTorch in full, beside their one line");
  command.add_flag("--print-config", arguments.print_config,
                   "print every value and where it came from, and do nothing");
}

namespace {

/// LibTorch's MKL searches for its files from the working folder while it is loaded, and ends the program if that
/// folder is gone. This runs before, when only the C library can be used.
__attribute__((no_sanitize("address"))) void check_working_folder() {
  static char here[PATH_MAX];
  if (::syscall(SYS_getcwd, here, sizeof here) > 0 || errno == ERANGE) return;
  ::dprintf(STDERR_FILENO,
            "ripieno: the working folder cannot be used (%s): it was deleted, or may not be read; cd to another one\n",
            ::strerrordesc_np(errno));
  ::_exit(static_cast<int>(ErrorKind::io));
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)() = check_working_folder;

int run_command_line(int argc, char** argv, const model::Zoo& zoo) {
  if (std::getenv(verbose_variable)) train::print_errors_in_full();
  CLI::App app(
      "Ripieno trains a network on many workers and makes the way in which they agree a value that you swap,\n"
      "measure and predict. Start with: ripieno compare recipes/demo.toml",
      "ripieno");
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormat>());
  app.set_version_flag("--version", std::string(RIPIENO_VERSION));
  CommandContext context{zoo, "text", {}};
  const std::vector<std::string> given(argv + std::min(argc, 1), argv + argc);
  add_train(app, context);
  add_compare(app, context);
  add_advise(app, context);
  add_explain(app, context);
  add_watch(app, context);
  add_report(app, context);
  add_bench(app, context);
  add_list(app, context);
  add_doctor(app, context);
  add_help(app, context);
  add_launch(app, context);
  add_agent(app, context);
  add_lab(app, context);
  add_worker(app, context);
  if (const std::string unknown = unknown_command(app, argc, argv); !unknown.empty()) {
    std::cerr << "ripieno: " << without_long_words(no_command(app, unknown), given) << "\n";
    return static_cast<int>(ErrorKind::usage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::cerr << "ripieno: " << without_long_words(error.what(), given) << suggestion(app, {argv + 1, argv + argc})
              << " (see ripieno " << (app.get_subcommands().empty() ? "" : app.get_subcommands()[0]->get_name() + " ")
              << "--help)\n";
    return static_cast<int>(ErrorKind::usage);
  }
  try {
    context.chosen();
    return 0;
  } catch (const Reported& reported) {
    return static_cast<int>(reported.kind);
  } catch (const launch::Interrupted& interrupted) {
    std::cerr << "ripieno: " << interrupted.what() << "\n";
    return 128 + interrupted.signal();
  } catch (const Error& error) {
    std::cerr << "ripieno: " << without_long_words(error.what(), given) << "\n";
    return static_cast<int>(error.kind());
  } catch (const std::filesystem::filesystem_error& error) {
    const std::string said = text(error.path1().string(), ": ", error.code().message());
    std::cerr << "ripieno: " << without_long_words(said, given) << "\n";
    return static_cast<int>(ErrorKind::io);
  } catch (const std::exception& error) {
    std::cerr << "ripieno: internal error: " << without_long_words(train::first_line(error), given) << "\n";
    return static_cast<int>(ErrorKind::internal);
  }
}

}  // namespace

int run_program(int argc, char** argv, const model::Zoo& zoo) {
  launch::serve_as_nursery();
  ::signal(SIGXFSZ, SIG_IGN);  // exceeding a file-size limit is then an error of that file
  open_standard_descriptors();
  StandardOutput output;
  const int code = run_command_line(argc, argv, zoo);
  try {
    output.finish();
    return code;
  } catch (const Error& error) {
    if (code != 0) return code;
    std::cerr << "ripieno: " << error.what() << "\n";
    return static_cast<int>(error.kind());
  }
}

}  // namespace ripieno::program
