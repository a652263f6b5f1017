#include "apps/ripieno/on_hosts.h"

#include "ripieno/core/file.h"
#include "ripieno/launch/placement.h"
#include "ripieno/launch/process.h"

namespace ripieno::program {

void add_hosts(CLI::App& command, HostArguments& arguments) {
  auto* hosts = command.add_option("--hosts", arguments.hosts,
                                   "start the workers on these hosts through ssh, e.g. --hosts a:2,b:2");
  hosts->type_name("LIST");
  command.add_option("--hostfile", arguments.file, "the same from a file, a line a host: a slots=2")
      ->type_name("FILE")
      ->excludes(hosts);
}

launch::HostsJob job_on_hosts(const HostArguments& arguments, int workers) {
  launch::check_environment();
  launch::HostsJob job;
  job.hosts = arguments.file.empty() ? launch::parse_hosts(arguments.hosts) : launch::read_hosts(arguments.file);
  launch::take_workers(workers, &job.hosts);
  job.agent = launch::own_program();
  job.version = RIPIENO_VERSION;
  return job;
}

std::vector<std::string> own_command_line() {
  const std::string all = read_file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = all.find('\0', begin);
    words.push_back(all.substr(begin, end - begin));
    begin = end == std::string::npos ? all.size() : end + 1;
  }
  std::vector<std::string> kept{launch::own_program()};
  for (std::size_t i = 1; i < words.size(); ++i) {
    const bool names_hosts = words[i].starts_with("--hosts") || words[i].starts_with("--hostfile");
    if (!names_hosts) {
      kept.push_back(words[i]);
    } else if (words[i].find('=') == std::string::npos) {
      ++i;  // its value
    }
  }
  return kept;
}

}  // namespace ripieno::program
