// Where the ranks of a loop's run write: they meet, rank 0 makes the folder, and the others find it, or, on hosts that
// do not share it, make their own, whose files go to rank 0 at the end.
#pragma once

#include <memory>
#include <optional>

#include "ripieno/loop/rank_texts.h"
#include "ripieno/observe/run_folder.h"
#include "ripieno/observe/run_lock.h"
#include "ripieno/report/loop_file.h"

namespace ripieno::loop {

class RunPlace {
 public:
  /// All ranks call it. `runs`: in which rank 0 makes the folder. `check`: throws if this rank cannot go on. Errors, on
  /// all ranks: those of one; Error(mismatch) if ranks describe different runs.
  RunPlace(const RankTexts& ranks, const std::filesystem::path& runs, const report::LoopFile& loop,
           const std::string& environment, const std::function<void()>& check);
  /// A folder of this rank's own that was not gathered stays, and a line on standard error names it.
  ~RunPlace();
  RunPlace(const RunPlace&) = delete;
  RunPlace& operator=(const RunPlace&) = delete;

  const observe::RunFolder& folder() const { return *folder_; }

  /// All ranks call it, when their metrics are written: they are in rank 0's folder then. Returns all summaries there.
  std::vector<std::string> gather(const RankTexts& ranks, const std::string& summary);

 private:
  std::optional<observe::RunFolder> folder_;
  std::optional<observe::RunLock> lock_;
  bool is_own_ = false;
  int rank_ = 0;
};

/// Throws, on all ranks, what keeps one of them from going on; elsewhere Error(peer), with its rank and its error.
void meet_by_texts(const RankTexts& ranks, std::exception_ptr trouble);

}  // namespace ripieno::loop
