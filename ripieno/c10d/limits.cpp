#include "ripieno/c10d/limits.h"

#include "ripieno/c10d/store_meeting.h"
#include "ripieno/c10d/time_limit.h"

namespace ripieno::c10d {

Duration waiting_limit(Backend& group) { return std::min(longest_limit, group.getBackendOptions()->timeout); }

std::string because_of(const std::vector<int>& awaited, const transport::Hang& hang) {
  if (awaited.empty()) return {};
  const bool goes_on = hang.culprits != awaited && !hang.known.empty();
  return text(": it waits for ", list_of(awaited), goes_on ? " (" + hang.known + ")" : "");
}

Task<> within_limit(collective::Communicator comm, Duration limit, std::string what, Task<> act,
                    std::function<void(std::exception_ptr)> give_up) {
  const auto expire = [&](const transport::Hang& hang) {
    auto late = std::make_exception_ptr(
        Error(loss_by(hang), text("rank ", comm.rank(), ": ", what, " has timed out after its timeout of ",
                                  seconds(limit), " s", because_of(comm.endpoint().awaited(), hang))));
    give_up(late);
    return late;
  };
  std::optional<TimeLimit> watched;
  if (limit > Duration(0)) watched.emplace(comm, limit, expire);
  Task<std::exception_ptr> ending = error_of(std::move(act));
  const std::exception_ptr error = co_await std::move(ending);
  watched.reset();
  if (error) std::rethrow_exception(error);
}

Task<> within_limit(Backend& group, collective::Communicator comm, std::string what, Task<> act) {
  return within_limit(comm, waiting_limit(group), std::move(what), std::move(act), comm.ending());
}

}  // namespace ripieno::c10d
