// The hosts of a job that `--hosts` or a host file names, and how many workers each gets.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ripieno::launch {

struct Host {
  std::string name;  ///< as ssh knows it
  int workers = 1;
};

/// "a:2,b:2": two workers each; without a number, one. Blanks may stand around commas. An IPv6 number stands in
/// brackets. Error(usage): it is no such list.
std::vector<Host> parse_hosts(const std::string& list);

/// A line a host: "a slots=2" (as Open MPI has it), "a:2" (as MPICH has it) or "a"; # begins a comment. Error(usage):
/// there is no such file, or a line is none of these, or says more.
std::vector<Host> read_hosts(const std::filesystem::path& file);

/// Takes `workers` of the hosts' workers, in their order. Error(usage), with both numbers, if they have fewer. 0: all.
void take_workers(int workers, std::vector<Host>* hosts);

/// All hosts' workers.
int workers_of(const std::vector<Host>& hosts);

/// Whether it names this machine: localhost, or its host name.
bool is_here(const Host& host);

}  // namespace ripieno::launch
