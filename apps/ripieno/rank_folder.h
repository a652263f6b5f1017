// The folder of a run, as each rank sees it: the one that rank 0 has made, or, on a host that does not share it, one of
// the rank's own, whose files go to rank 0 when they are written.
#pragma once

#include <optional>

#include "apps/ripieno/program_runs.h"
#include "ripieno/collective/communicator.h"

namespace ripieno::program {

class RankFolder {
 public:
  /// All ranks call it; rank 0 passes the folder that it has made. Error(io): this host can make no folder of its own.
  static Task<> agree(collective::Communicator comm, std::optional<RunFolder> made, RankFolder* mine);

  RankFolder() = default;
  /// A folder of its own that was not gathered stays, and is named in a line on standard error: nothing is lost.
  ~RankFolder();
  RankFolder(RankFolder&&) = delete;

  const RunFolder& run() const { return *run_; }

  /// All ranks call it, when their files are written. Folders of ranks' own are gone then.
  Task<> gather(collective::Communicator comm);

 private:
  std::optional<RunFolder> run_;
  bool is_own_ = false;
  int rank_ = 0;
};

}  // namespace ripieno::program
