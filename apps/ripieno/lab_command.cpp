#include <iostream>

#include "apps/ripieno/commands.h"
#include "ripieno/launch/lab.h"

namespace ripieno::program {

void add_lab(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("lab", "Emulated clusters (lab.nodes): clean up what killed runs have left");
  command->require_subcommand(1);
  command->add_subcommand("clean", "remove the nodes of runs that have ended; the next lab does so too")
      ->callback([&context] {
        context.chosen = [] {
          const int count = launch::Lab::clean();
          std::cout << (count == 0
                            ? "nothing was left\n"
                            : text(count, count == 1 ? " network namespace" : " network namespaces", " taken down\n"));
        };
      });
}

}  // namespace ripieno::program
