#include "apps/ripieno/saved_states.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <vector>

#include "ripieno/core/error.h"

namespace ripieno::program {
namespace {

namespace fs = std::filesystem;

using strategy::Point;

/// Reads a number at the beginning of `rest`, after `word`, and removes both; 0 if they are not there.
std::uint32_t take_number(std::string_view word, std::string_view* rest) {
  std::uint32_t number = 0;
  if (!rest->starts_with(word)) return 0;
  const auto found = std::from_chars(rest->data() + word.size(), rest->data() + rest->size(), number);
  if (found.ec != std::errc()) return 0;
  rest->remove_prefix(static_cast<std::size_t>(found.ptr - rest->data()));
  return number;
}

/// Of a name like state-1.epoch-3-step-7.pt; nullopt if it is not such a name of this rank.
std::optional<Point> point_in(std::string_view name, int rank) {
  const std::string before = text("state-", rank);
  if (!name.starts_with(before)) return std::nullopt;
  name.remove_prefix(before.size());
  Point point;
  point.epoch = take_number(".epoch-", &name);
  point.step = take_number("-step-", &name);
  return name == ".pt" && point != Point() ? std::optional(point) : std::nullopt;
}

Point point_of(const fs::path& state) {
  const std::vector<std::int64_t> numbers = train::load_first_numbers(state, 2);
  return {static_cast<std::uint32_t>(numbers[0]), static_cast<std::uint32_t>(numbers[1])};
}

/// The newest point that all have.
template <class Files>
std::optional<Point> newest_of_all(const std::vector<Files>& ranks) {
  std::optional<Point> newest;
  for (const auto& [point, file] : ranks.front()) {
    bool everywhere = true;
    for (const Files& one : ranks) everywhere = everywhere && one.count(point) > 0;
    if (everywhere) newest = point;
  }
  return newest;
}

/// Where a rank does not see the files of all, since hosts share no folder: ranks that exchange are not further apart
/// than this.
constexpr std::size_t most_unseen = 3;

template <class Files>
std::optional<Point> earliest_to_keep(const Files& own) {
  if (own.size() <= most_unseen) return std::nullopt;
  return std::prev(own.end(), most_unseen)->first;
}

}  // namespace

std::optional<Point> SavedStates::take_over(int rank) {
  const fs::path newest = folder_.state(rank);
  last_ = fs::exists(newest) ? std::optional(point_of(newest)) : std::nullopt;
  return last_;
}

void SavedStates::keep_newest(int rank) {
  std::error_code ignored;
  for (const auto& [point, file] : files_of(rank)) {
    if (file != folder_.state(rank)) fs::remove(file, ignored);
  }
}

SavedStates::Files SavedStates::files_of(int rank) const {
  Files files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_.path(), error)) {
    const auto point = point_in(entry.path().filename().string(), rank);
    if (point && entry.path() != folder_.state(rank)) files.emplace(*point, entry.path());
  }
  if (fs::exists(folder_.state(rank), error)) files[point_of(folder_.state(rank))] = folder_.state(rank);
  return files;
}

void SavedStates::save(int rank, Point point, const train::NamedTensors& state) {
  const fs::path newest = folder_.state(rank);
  if (point == last_) return;  // of a rank that was lost after it had saved, or saved twice at the same point
  if (last_) {
    std::error_code error;
    fs::rename(newest, folder_.state(rank, last_->epoch, last_->step), error);
    if (error) fail(ErrorKind::io, newest.string(), ": cannot rename: ", error.message());
  }
  train::save_tensors(newest, state);
  last_ = point;
  std::vector<Files> ranks;
  try {
    for (int one = 0; one < ranks_; ++one) ranks.push_back(files_of(one));
  } catch (const Error&) {  // another rank's file is being moved just now: the next save tidies up
    return;
  }
  const bool sees_all = std::none_of(ranks.begin(), ranks.end(), [](const Files& files) { return files.empty(); });
  const auto all_have = sees_all ? newest_of_all(ranks) : earliest_to_keep(ranks[static_cast<std::size_t>(rank)]);
  if (!all_have) return;
  std::error_code ignored;
  for (const Files& files : ranks) {
    for (const auto& [other, file] : files) {
      if (other < *all_have) fs::remove(file, ignored);
    }
  }
}

SavedStates::Saved SavedStates::newest_of(int rank) const {
  std::vector<Files> ranks;
  std::string have;
  for (int one = 0; one < ranks_; ++one) {
    ranks.push_back(files_of(one));
    if (ranks.back().empty()) {
      fail(ErrorKind::data, folder_.state(one).string(),
           ": there is no such file to go on from; it is written at the end and on the way ",
           "(run.checkpoint_s, run.checkpoint_every), but not of a replay, nor where train.max_steps ended the run");
    }
    std::string points;
    for (const auto& [point, file] : ranks.back()) points += text(points.empty() ? " " : ", ", described(point));
    if (one < 4 || one + 1 == ranks_) have += text(one == 0 ? "" : "; ", "rank ", one, ":", points);
  }
  const std::optional<Point> all_have = newest_of_all(ranks);
  if (!all_have) {
    fail(ErrorKind::data, folder_.path().string(), ": there is no point of training at which all ", ranks_,
         " ranks were saved (", have, "), so there is nothing to go on from");
  }
  return {*all_have, ranks[static_cast<std::size_t>(rank)].at(*all_have)};
}

}  // namespace ripieno::program
