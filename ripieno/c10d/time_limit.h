// The limit of an operation on a group.
#pragma once

#include <functional>
#include <optional>

#include "ripieno/collective/communicator.h"

namespace ripieno::c10d {

/// From its making to its end. At the limit calls `expire`, which must end the operation and returns
/// why (null: it has just ended). A peer that hangs may still read the operation's memory in place, and keep it from
/// ending: telling_limit later the connections to such peers end, too. Used on the runtime's thread alone.
class TimeLimit {
 public:
  TimeLimit(collective::Communicator comm, Duration limit, std::function<std::exception_ptr()> expire)
      : comm_(std::move(comm)), expire_(std::move(expire)) {
    call_in(limit, [this] { give_up(); });
  }
  ~TimeLimit() {
    if (timer_) comm_.runtime().cancel(*timer_);
  }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  void call_in(Duration time, std::function<void()> act) {
    Runtime& runtime = comm_.runtime();
    timer_ = runtime.call_at(runtime.now() + time, std::move(act));
  }
  void give_up() {
    timer_.reset();
    const std::exception_ptr error = expire_();
    if (error) call_in(transport::telling_limit, [this, error] { comm_.endpoint().cut_off(error); });
  }

  const collective::Communicator comm_;
  const std::function<std::exception_ptr()> expire_;
  std::optional<Runtime::Timer> timer_;
};

}  // namespace ripieno::c10d
