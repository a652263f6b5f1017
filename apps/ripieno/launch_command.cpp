#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/ripieno/commands.h"
#include "apps/ripieno/worker.h"
#include "ripieno/launch/local.h"
#include "ripieno/launch/placement.h"

namespace ripieno::program {
namespace {

void run_launch(launch::LocalJob& job) {
  launch::check_environment();
  if (!std::getenv("OMP_NUM_THREADS")) {  // else every worker would use as many threads as there are cores
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    job.variables.emplace_back("OMP_NUM_THREADS", text(std::max(1, cores / job.workers)));
  }
  try {
    launch::run_local(job);
  } catch (const launch::WorkerExited& exited) {
    std::cerr << "ripieno: " << exited.what() << "\n";
    throw Reported{static_cast<ErrorKind>(exited.code())};  // the command exits with the program's own code
  }
}

}  // namespace

void add_launch(CLI::App& app, CommandContext& context) {
  auto job = std::make_shared<launch::LocalJob>();
  CLI::App* command = app.add_subcommand(
      "launch",
      "Start a program of your own as the workers of a job (see examples/own_loop.cpp). Where OMP_NUM_THREADS\n"
      "is not set, each gets an equal part of this machine's cores, at least 1. A program's own exit code is passed "
      "on");
  command->add_option("-n,--workers", job->workers, "how many workers")->required()->check(CLI::Range(1, 4096));
  command->add_option("command", job->command, "the program and its arguments, after --")->required();
  command->callback([job, &context] { context.chosen = [job] { run_launch(*job); }; });
}

}  // namespace ripieno::program
