#include "ripieno/loop/run_place.h"

#include <stdlib.h>

#include <asio/ip/host_name.hpp>
#include <functional>
#include <iostream>

#include "ripieno/core/file.h"
#include "ripieno/rendezvous/greeting.h"

namespace ripieno::loop {
namespace {

namespace fs = std::filesystem;

std::string told(const std::exception_ptr& trouble) {
  if (!trouble) return "";
  try {
    std::rethrow_exception(trouble);
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// The first line of rank 0's description that a rank's has otherwise.
void compare(const std::vector<std::string>& descriptions) {
  const auto lines_of = [](std::string_view text) {
    std::vector<std::string> lines;
    for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1))
      lines.emplace_back(text.substr(0, end));
    return lines;
  };
  const std::vector<std::string> first = lines_of(descriptions[0]);
  for (std::size_t rank = 1; rank < descriptions.size(); ++rank) {
    if (descriptions[rank] == descriptions[0]) continue;
    const std::vector<std::string> other = lines_of(descriptions[rank]);
    std::size_t at = 0;
    while (at < std::min(first.size(), other.size()) && first[at] == other[at]) ++at;
    const auto line = [at](const std::vector<std::string>& lines) {
      std::string found = at < lines.size() ? lines[at] : "nothing";
      if (found.ends_with(',')) found.pop_back();
      return found.substr(std::min(found.size(), found.find_first_not_of(' ')));
    };
    fail(ErrorKind::mismatch, "ranks describe different runs: rank ", rank, " has ", line(other), " and rank 0 ",
         line(first), "; give all the same options");
  }
}

observe::RunFolder made_here(int rank) {
  std::string name = (fs::temp_directory_path() / text("ripieno-run-rank-", rank, "-XXXXXX")).string();
  if (!::mkdtemp(name.data()))
    fail(ErrorKind::io, name, ": cannot make the folder, on ", asio::ip::host_name(),
         ", which does not share the run's");
  return observe::RunFolder(name);
}

}  // namespace

void meet_by_texts(const RankTexts& ranks, std::exception_ptr trouble) {
  const std::vector<std::string> all = ranks.all(told(trouble));
  if (trouble) std::rethrow_exception(trouble);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty())
      fail(Loss{static_cast<int>(rank), Lost::gave_up}, "rank ", rank, " could not go on: ", all[rank]);
  }
}

RunPlace::RunPlace(const RankTexts& ranks, const fs::path& runs, const report::LoopFile& loop,
                   const std::string& environment, const std::function<void()>& check)
    : rank_(ranks.rank()) {
  std::exception_ptr trouble;
  try {
    check();
    if (rank_ == 0) {
      folder_ = observe::RunFolder::create(runs, loop.known.name, "name");
      write_file(folder_->loop(), to_json(loop));
      write_file(folder_->environment(), environment);
    }
  } catch (...) {
    trouble = std::current_exception();
  }
  try {
    meet_by_texts(ranks, trouble);
    compare(ranks.all(to_json(loop)));
  } catch (...) {
    if (folder_) fs::remove_all(folder_->path());
    throw;
  }
  // A file that only a host which shares the folder can see.
  const std::string mark = rank_ == 0 ? "shared-" + rendezvous::random_token().substr(0, 16) : "";
  if (rank_ == 0) write_file(folder_->path() / mark, "");
  const std::string seen = ranks.all(rank_ == 0 ? fs::absolute(folder_->path() / mark).string() : "")[0];
  is_own_ = rank_ != 0 && !fs::exists(seen);
  ranks.all("");  // have looked
  if (rank_ == 0) fs::remove(folder_->path() / mark);
  if (rank_ != 0) folder_ = is_own_ ? made_here(rank_) : observe::RunFolder(fs::path(seen).parent_path());
  lock_.emplace(folder_->path());
}

RunPlace::~RunPlace() {
  if (!folder_) return;
  if (is_own_ || rank_ == 0) observe::RunFolder::remove_if_nothing_came(folder_->path());
  if (!is_own_ || !fs::exists(folder_->path())) return;
  std::cerr << text("rank ", rank_, ": ", asio::ip::host_name(),
                    " does not share the run's folder; what this rank has ", "written is in ", folder_->path().string(),
                    "\n");
}

std::vector<std::string> RunPlace::gather(const RankTexts& ranks, const std::string& summary) {
  std::vector<std::string> summaries = ranks.all(summary);
  const std::vector<std::string> apart = ranks.all(is_own_ ? "apart" : "");
  for (int rank = 1; rank < ranks.size(); ++rank) {
    if (apart[static_cast<std::size_t>(rank)].empty()) continue;
    ranks.to_first(rank, folder_->metrics(rank));
  }
  ranks.all("");  // rank 0 has them
  if (is_own_) fs::remove_all(folder_->path());
  is_own_ = false;
  return summaries;
}

}  // namespace ripieno::loop
