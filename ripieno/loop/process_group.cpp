#include "ripieno/loop/process_group.h"

#include <atomic>

#include "ripieno/c10d/store_meeting.h"
#include "ripieno/launch/join.h"

namespace ripieno::loop {

ProcessGroup init_process_group(const ProcessGroupOptions& options) {
  const launch::Placement place = launch::placement();
  static std::atomic<bool> has_met = false;
  if (place.control_fd >= 0 && place.world_size > 1 && has_met.exchange(true)) {
    fail(ErrorKind::usage, "rank ", place.rank,
         ": init_process_group() a second time: the ranks of ripieno launch meet once; keep the first group");
  }
  launch::JoinOptions join;
  join.transport = options.transport;
  join.interface = options.interface;
  join.timeout = c10d::longest_limit;  // operations have limits of their own
  join.meeting = std::min(c10d::longest_limit, options.meeting);
  join.shared_memory = options.shared_memory;
  return c10::make_intrusive<c10d::Backend>(launch::join(place, join),
                                            c10::make_intrusive<c10d::Backend::Options>(options.timeout));
}

ProcessGroup init_process_group(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size,
                                std::chrono::milliseconds timeout) {
  return c10::make_intrusive<c10d::Backend>(store, rank, size, c10::make_intrusive<c10d::Backend::Options>(timeout));
}

}  // namespace ripieno::loop
