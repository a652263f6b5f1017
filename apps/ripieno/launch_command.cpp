#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/ripieno/commands.h"
#include "apps/ripieno/on_hosts.h"
#include "apps/ripieno/worker.h"
#include "ripieno/launch/agent.h"
#include "ripieno/launch/held_port.h"
#include "ripieno/launch/local.h"
#include "ripieno/launch/placement.h"

namespace ripieno::program {
namespace {

struct LaunchArguments {
  HostArguments hosts;
  int workers = 0;
  std::vector<std::string> command;
};

void run_here(const LaunchArguments& arguments) {
  launch::check_environment();
  launch::LocalJob job;
  job.workers = arguments.workers;
  job.command = arguments.command;
  job.repeats_lines = false;  // they have been shown
  const launch::HeldPort port;
  job.pytorch = launch::PytorchPlace{"127.0.0.1", port.number()};
  if (!std::getenv("OMP_NUM_THREADS"))  // else every worker would use as many threads as there are cores
    job.variables.emplace_back("OMP_NUM_THREADS", std::to_string(launch::part_of_cores(job.workers)));
  launch::run_local(job);
}

void run_there(const LaunchArguments& arguments) {
  launch::HostsJob job = job_on_hosts(arguments.hosts, arguments.workers);
  job.command = arguments.command;
  job.shares_cores = true;
  job.tells_pytorch = true;
  job.needs_launcher = false;  // its programs may meet otherwise
  launch::run_on_hosts(job);
}

void run_launch(const LaunchArguments& arguments) {
  if (arguments.workers == 0 && !arguments.hosts.are_given())
    fail(ErrorKind::usage, "how many workers? Say -n N, or where: --hosts a:2,b:2");
  try {
    arguments.hosts.are_given() ? run_there(arguments) : run_here(arguments);
  } catch (const launch::WorkerExited& exited) {
    std::cerr << "ripieno: " << exited.what() << "\n";
    throw Reported{static_cast<ErrorKind>(exited.code())};  // the command exits with the program's own code
  } catch (const launch::Interrupted& interrupted) {
    throw launch::Interrupted(interrupted.signal(),
                              "its workers were told to end, and have ended. Files that they saved remain: the same "
                              "command starts them again");
  }
}

}  // namespace

void add_launch(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<LaunchArguments>();
  CLI::App* command =
      app.add_subcommand("launch",
                         "Start a program of your own as the workers of a job: one with Ripieno (see "
                         "examples/own_loop.cpp), or a PyTorch\n"
                         "script, which finds the variables that torchrun sets. Where OMP_NUM_THREADS "
                         "is not set, each gets an equal part\n"
                         "of its machine's cores, at least 1. Its standard input is empty. Its exit code is passed on");
  command->add_option("-n,--workers", arguments->workers, "how many workers; with hosts, by default all of theirs")
      ->check(CLI::Range(1, 4096));
  add_hosts(*command, arguments->hosts);
  command->add_option("command", arguments->command, "the program and its arguments, after --")->required();
  command->callback([arguments, &context] { context.chosen = [arguments] { run_launch(*arguments); }; });
}

void add_agent(CLI::App& app, CommandContext& context) {
  auto folder = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("agent", "A launcher's hand on another host")->group("");
  command->add_option("folder", *folder, "where the workers run")->required();
  command->callback([folder, &context] { context.chosen = [folder] { launch::run_agent(*folder, RIPIENO_VERSION); }; });
}

}  // namespace ripieno::program
