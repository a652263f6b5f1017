#include "ripieno/launch/hosts.h"

#include <algorithm>
#include <asio/ip/host_name.hpp>
#include <charconv>
#include <numeric>
#include <sstream>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"

namespace ripieno::launch {
namespace {

constexpr int most_workers = 4096;

/// `where`: of an error.
int number_of_workers(const std::string& digits, const std::string& where) {
  int number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || at != end || number < 1 || number > most_workers)
    fail(ErrorKind::usage, where, ": '", digits, "' workers: a host has 1 to ", most_workers);
  return number;
}

/// "a:2", "a", "[fe80::1]:2"
Host parse_host(const std::string& word, const std::string& where) {
  if (!word.starts_with('[') && std::count(word.begin(), word.end(), ':') > 1)
    fail(ErrorKind::usage, where, ": '", word, "': an IPv6 number stands in brackets, as [::1] or [::1]:2");
  const std::size_t bracket = word.find(']'), colon = word.find(':', bracket == std::string::npos ? 0 : bracket);
  Host host{word.substr(0, colon), 1};
  if (host.name.starts_with('[') && host.name.ends_with(']')) host.name = host.name.substr(1, host.name.size() - 2);
  const bool is_option = host.name.starts_with('-');  // ssh would take it for one
  if (host.name.empty() || is_option) fail(ErrorKind::usage, where, ": '", word, "' does not name a host");
  if (colon != std::string::npos) host.workers = number_of_workers(word.substr(colon + 1), where);
  return host;
}

std::string without_blanks(const std::string& word) {
  constexpr const char* blanks = " \t";
  const std::size_t first = word.find_first_not_of(blanks), last = word.find_last_not_of(blanks);
  return first == std::string::npos ? "" : word.substr(first, last + 1 - first);
}

/// The rest of a host's line.
void read_slots(std::istringstream& words, const std::string& where, bool has_number, Host* host) {
  std::string slots, more;
  if (!(words >> slots)) return;
  if (!slots.starts_with("slots=")) fail(ErrorKind::usage, where, ": '", slots, "' is not slots=N");
  if (has_number)
    fail(ErrorKind::usage, where, ": ", host->name, ":", host->workers, " and ", slots, ": give one of them");
  host->workers = number_of_workers(slots.substr(6), where);
  if (words >> more)
    fail(ErrorKind::usage, where, ": '", more, "' comes after ", slots,
         ", and a line has one host and its slots: ", "give each host a line of its own");
}

void refuse_twice(const std::vector<Host>& hosts, const std::string& where) {
  for (auto host = hosts.begin(); host != hosts.end(); ++host) {
    if (std::any_of(hosts.begin(), host, [&](const Host& other) { return other.name == host->name; }))
      fail(ErrorKind::usage, where, ": ", host->name, " is named twice: write ", host->name, ":N for N workers");
  }
}

}  // namespace

std::vector<Host> parse_hosts(const std::string& list) {
  std::vector<Host> hosts;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) hosts.push_back(parse_host(without_blanks(word), "--hosts"));
  if (hosts.empty()) fail(ErrorKind::usage, "--hosts names no host: write --hosts a:2,b:2");
  refuse_twice(hosts, "--hosts");
  return hosts;
}

std::vector<Host> read_hosts(const std::filesystem::path& file) {
  std::string content;
  try {
    content = read_file(file);
  } catch (const Error& error) {
    fail(ErrorKind::usage, "--hostfile: ", error.what());
  }
  const std::string byte_order_mark = "\xEF\xBB\xBF";  // as some editors begin a file
  if (content.starts_with(byte_order_mark)) content.erase(0, byte_order_mark.size());
  std::vector<Host> hosts;
  std::istringstream lines(content);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = text(file.string(), ":", ++number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    Host host = parse_host(word, where);
    read_slots(words, where, word.find(':', word.starts_with('[') ? word.find(']') : 0) != std::string::npos, &host);
    hosts.push_back(host);
  }
  if (hosts.empty()) fail(ErrorKind::usage, file.string(), " names no host: a line each, such as: a slots=2");
  refuse_twice(hosts, file.string());
  return hosts;
}

int workers_of(const std::vector<Host>& hosts) {
  return std::accumulate(hosts.begin(), hosts.end(), 0, [](int sum, const Host& host) { return sum + host.workers; });
}

void take_workers(int workers, std::vector<Host>* hosts) {
  const int all = workers_of(*hosts);
  if (workers > all)
    fail(ErrorKind::usage, "-n ", workers, " asks for more workers than the hosts have, which is ", all);
  if (workers == 0) return;
  for (Host& host : *hosts) {
    host.workers = std::min(host.workers, workers);
    workers -= host.workers;
  }
  std::erase_if(*hosts, [](const Host& host) { return host.workers == 0; });
}

bool is_here(const Host& host) { return host.name == "localhost" || host.name == asio::ip::host_name(); }

}  // namespace ripieno::launch
