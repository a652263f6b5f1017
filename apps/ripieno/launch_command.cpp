#include <memory>
#include <nlohmann/json.hpp>

#include "apps/ripieno/commands.h"
#include "ripieno/launch/local.h"

namespace ripieno {

void add_launch(CLI::App& app, CommandContext& context) {
  auto job = std::make_shared<LocalJob>();
  CLI::App* command = app.add_subcommand("launch", "Start a program of your own as the workers of a job (see examples/own_loop.cpp)");
  command->add_option("-n,--workers", job->workers, "how many")->required()->check(CLI::Range(1, 4096));
  command->add_option("command", job->command, "the program and its arguments, after --")->required();
  command->callback([job, &context] { context.chosen = [job] { run_local(*job); }; });
}

}  // namespace ripieno
