// The limit of an operation on a group.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "ripieno/collective/communicator.h"

namespace ripieno::c10d {

/// From its making to its end. At the limit calls `expire`, which must end the operation and returns
/// why (null: it has just ended). An `expire` that takes a transport::Hang is told of the ranks at which the waiting
/// ends: the others are asked first, which takes a second or so (Endpoint::find_hang). A peer that hangs may still
/// read the operation's memory in place, and keep it from ending: telling_limit later the connections to such peers
/// end, too. Used on the runtime's thread alone.
class TimeLimit {
 public:
  using Expire = std::function<std::exception_ptr()>;
  using ExpireBy = std::function<std::exception_ptr(const transport::Hang&)>;

  TimeLimit(collective::Communicator comm, Duration limit, Expire expire) : comm_(std::move(comm)) {
    call_in(limit, [this, expire = std::move(expire)] { cut_off_after(expire()); });
  }
  TimeLimit(collective::Communicator comm, Duration limit, ExpireBy expire) : comm_(std::move(comm)) {
    call_in(limit, [this, limit, expire = std::move(expire)] {
      comm_.endpoint().find_hang(limit, [weak = std::weak_ptr(lives_), this, expire](const transport::Hang& hang) {
        if (!weak.expired()) cut_off_after(expire(hang));
      });
    });
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
  void cut_off_after(std::exception_ptr error) {
    timer_.reset();
    if (error) call_in(transport::telling_limit, [this, error] { comm_.endpoint().cut_off(error); });
  }

  const collective::Communicator comm_;
  std::optional<Runtime::Timer> timer_;
  const std::shared_ptr<const bool> lives_ = std::make_shared<const bool>(true);
};

}  // namespace ripieno::c10d
