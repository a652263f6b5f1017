#include <iostream>
#include <memory>
#include <utility>

#include "apps/ripieno/commands.h"
#include "apps/ripieno/suggest.h"
#include "ripieno/core/error.h"

namespace ripieno::program {

void add_help(CLI::App& app, CommandContext& context) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("help", "Show what a command does and its options; without one, all commands");
  command->add_option("command", *name, "train, compare, ...");
  command->callback([name, &app, &context] {
    context.chosen = [name, &app = std::as_const(app)] {
      const auto formatter = app.get_formatter();
      if (name->empty()) {
        std::cout << formatter->make_help(&app, "ripieno", CLI::AppFormatMode::Normal);
        return;
      }
      const auto named = app.get_subcommands(
          [&](const CLI::App* one) { return one->get_name() == *name && !one->get_group().empty(); });
      if (named.empty()) fail(ErrorKind::usage, no_command(app, *name));
      std::cout << formatter->make_help(named[0], "ripieno " + *name, CLI::AppFormatMode::Normal);
    };
  });
}

}  // namespace ripieno::program
