#include "ripieno/launch/tracebacks.h"

#include <utility>

#include "ripieno/core/error.h"

namespace ripieno::launch {
namespace {

constexpr std::size_t most_known = 100;  // of a job that runs for long

}  // namespace

std::vector<std::string> Tracebacks::take(int rank, const std::string& line) {
  const auto open = open_.find(rank);
  if (open == open_.end()) {
    if (line != "Traceback (most recent call last):") return {line};
    open_[rank] = {line};
    return {};
  }
  open->second.push_back(line);
  const bool is_within = line.starts_with(' ') && open->second.size() < 1000;
  return is_within ? std::vector<std::string>() : end(rank);
}

std::vector<std::string> Tracebacks::end(int rank) {
  const auto open = open_.find(rank);
  if (open == open_.end()) return {};
  std::vector<std::string> lines = std::move(open->second);
  open_.erase(open);
  return shown(rank, std::move(lines));
}

std::vector<std::string> Tracebacks::shown(int rank, std::vector<std::string> lines) {
  if (first_ranks_.size() == most_known) first_ranks_.clear();
  const auto [known, is_new] = first_ranks_.emplace(lines, rank);
  if (is_new || known->second == rank) return lines;
  return {text(lines.back(), "  (as rank ", known->second, ")")};
}

}  // namespace ripieno::launch
