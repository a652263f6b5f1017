#include "apps/ripieno/saved_states.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <vector>

#include "ripieno/core/error.h"

namespace ripieno::program {
namespace {

namespace fs = std::filesystem;

/// The epochs in a name like state-1.epoch-3.pt; 0 if it is not such a name of this rank.
std::int64_t kept_epochs(const std::string& name, int rank) {
  const std::string before = text("state-", rank, ".epoch-"), after = ".pt";
  std::int64_t epochs = 0;
  const char* end = name.data() + name.size();
  if (name.rfind(before, 0) != 0) return 0;
  const auto found = std::from_chars(name.data() + before.size(), end, epochs);
  return found.ec == std::errc() && std::string_view(found.ptr, end) == after ? epochs : 0;
}

/// The newest epoch that all have; 0: none.
template <class Files>
std::int64_t newest_of_all(const std::vector<Files>& ranks) {
  std::int64_t newest = 0;
  for (const auto& [epochs, file] : ranks.front()) {
    bool everywhere = true;
    for (const Files& one : ranks) everywhere = everywhere && one.count(epochs) > 0;
    if (everywhere) newest = epochs;
  }
  return newest;
}

/// Where a rank does not see the files of all, since hosts share no folder: ranks that exchange are not further apart
/// than this.
constexpr std::size_t most_unseen = 3;

template <class Files>
std::int64_t earliest_to_keep(const Files& own) {
  return own.size() <= most_unseen ? 0 : std::prev(own.end(), most_unseen)->first;
}

}  // namespace

std::int64_t SavedStates::take_over(int rank) {
  const fs::path newest = folder_.state(rank);
  last_ = fs::exists(newest) ? train::load_first_number(newest) : 0;
  return last_;
}

void SavedStates::keep_newest(int rank) {
  std::error_code ignored;
  for (const auto& [epochs, file] : files_of(rank)) {
    if (file != folder_.state(rank)) fs::remove(file, ignored);
  }
}

SavedStates::Files SavedStates::files_of(int rank) const {
  Files files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_.path(), error)) {
    const std::int64_t epochs = kept_epochs(entry.path().filename().string(), rank);
    if (epochs > 0) files.emplace(epochs, entry.path());
  }
  if (fs::exists(folder_.state(rank), error))
    files[train::load_first_number(folder_.state(rank))] = folder_.state(rank);
  return files;
}

void SavedStates::save(int rank, std::int64_t epochs_done, const train::NamedTensors& state) {
  const fs::path newest = folder_.state(rank);
  if (epochs_done == last_) return;  // of a rank that was lost after it had saved
  if (last_ > 0) {
    std::error_code error;
    fs::rename(newest, folder_.state(rank, last_), error);
    if (error) fail(ErrorKind::io, newest.string(), ": cannot rename: ", error.message());
  }
  train::save_tensors(newest, state);
  last_ = epochs_done;
  std::vector<Files> ranks;
  try {
    for (int one = 0; one < ranks_; ++one) ranks.push_back(files_of(one));
  } catch (const Error&) {  // another rank's file is being moved just now: the next save tidies up
    return;
  }
  const bool sees_all = std::none_of(ranks.begin(), ranks.end(), [](const Files& files) { return files.empty(); });
  const std::int64_t all_have =
      sees_all ? newest_of_all(ranks) : earliest_to_keep(ranks[static_cast<std::size_t>(rank)]);
  std::error_code ignored;
  for (const Files& files : ranks) {
    for (const auto& [epochs, file] : files) {
      if (epochs < all_have) fs::remove(file, ignored);
    }
  }
}

fs::path SavedStates::newest_of(int rank) const {
  std::vector<Files> ranks;
  std::string have;
  for (int one = 0; one < ranks_; ++one) {
    ranks.push_back(files_of(one));
    if (ranks.back().empty()) {
      fail(ErrorKind::data, folder_.state(one).string(),
           ": there is no such file to go on from; it is written at the end ",
           "(run.checkpoint_every: also on the way), but not of a replay, nor where train.max_steps ended the run");
    }
    std::string epochs;
    for (const auto& [epoch, file] : ranks.back()) epochs += text(epochs.empty() ? " " : ", ", epoch);
    if (one < 4 || one + 1 == ranks_) have += text(one == 0 ? "" : "; ", "rank ", one, ":", epochs);
  }
  const std::int64_t all_have = newest_of_all(ranks);
  if (all_have == 0) {
    fail(ErrorKind::data, folder_.path().string(), ": there is no number of epochs after which all ", ranks_,
         " ranks were saved (", have, "), so there is nothing to go on from");
  }
  return ranks[static_cast<std::size_t>(rank)].at(all_have);
}

}  // namespace ripieno::program
