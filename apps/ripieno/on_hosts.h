// `--hosts` and `--hostfile` of the commands that start workers: on several hosts, through ssh.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "ripieno/launch/remote.h"

namespace ripieno::program {

struct HostArguments {
  std::string hosts, file;
  bool are_given() const { return !hosts.empty() || !file.empty(); }
};

void add_hosts(CLI::App& command, HostArguments& arguments);

/// The job's hosts, of which `workers` (-n; 0: all) are taken, and what they need of this program. Error(usage): as
/// parse_hosts() and the others of hosts.h, or another launcher has started this process.
launch::HostsJob job_on_hosts(const HostArguments& arguments, int workers);

/// This process's command line, by its own path and without the options that name hosts: what each worker runs.
std::vector<std::string> own_command_line();

}  // namespace ripieno::program
