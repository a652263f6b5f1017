// How a Backend ends, and its operations with it.
#include <unistd.h>

#include "ripieno/c10d/backend.h"
#include "ripieno/c10d/limits.h"

namespace ripieno::c10d {

/// What is in flight ends, with an error, and then there are no members.
void Backend::part(const std::string& why) {
  {
    const std::lock_guard lock(order_);
    if (!members_) return;
    is_parting_ = true;
    coalescing_.reset();
  }
  try {
    end(why, false);
    members_->cluster.progress().run("what it listens for", members_->messages->close());
    members_->cluster.progress().run("what it listens for", members_->roots->close());
    earlier_ = counts();
  } catch (...) {  // the runtime is broken: nothing is left to end
  }
  std::unique_ptr<Members> gone;  // once the lock is
  const std::lock_guard lock(order_);
  gone = std::move(members_);
  is_parting_ = false;
}

std::exception_ptr Backend::too_late(const PendingWork& work, const Asked& asked, const transport::Hang& hang) const {
  return std::make_exception_ptr(Error(
      loss_by(hang),
      text("rank ", rank_, ": ", described(asked, work.getSequencenumber()), " has timed out after its timeout of ",
           seconds(limit_of(asked.timeout)), " s", because_of(members_->comm.endpoint().awaited(), hang))));
}

/// A mismatch tells of messages, which may be parts of what the user has called.
std::exception_ptr Backend::in_context(const std::exception_ptr& error, const PendingWork& work,
                                       const Asked& asked) const {
  if (has_failed_) return error;  // it is of an earlier one
  try {
    std::rethrow_exception(error);
  } catch (const Error& mismatch) {
    if (mismatch.kind() != ErrorKind::mismatch) return error;
    return std::make_exception_ptr(Error(ErrorKind::mismatch, text(mismatch.what(), " (rank ", rank_, " is in ",
                                                                   described(asked, work.getSequencenumber()), ")")));
  } catch (...) {
    return error;
  }
}

void Backend::give_up(const std::exception_ptr& error) {
  members_->comm.abort(error);
  members_->messages->abort(error);
}

void Backend::fail_all(const std::exception_ptr& error) {
  has_failed_ = true;
  give_up(error);
}

Task<> Backend::tell_end(std::string why, bool waits) {
  Members& now = *members_;
  give_up(std::make_exception_ptr(Error(ErrorKind::peer, text("rank ", rank_, ": the group has ended: ", why))));
  if (waits && now.in_flight > 0) {
    if (!now.none_in_flight || now.none_in_flight->is_set()) now.none_in_flight = std::make_shared<Event>(runtime());
    const std::shared_ptr<Event> none = now.none_in_flight;
    co_await none->wait();
  }
  Task<> telling = now.cluster.endpoint->flush();
  co_await std::move(telling);
}

Task<> Backend::finish(std::string why, bool always) {
  Task<> ending = members_->in_flight > 0 || always ? tell_end(why, true) : members_->cluster.endpoint->flush();
  co_await std::move(ending);
}

void Backend::end(const std::string& why, bool always) {
  if (members_) members_->cluster.progress().run("the group's end", finish(why, always));
}

void Backend::end_with_process(const std::string& why) {
  if (members_) members_->cluster.progress().run("the group's end", tell_end(why, false));
}

void Backend::leave() {
  if (process_ != ::getpid()) return;
  end("the process ends", false);
  threads_->close();
}

}  // namespace ripieno::c10d
