#include "ripieno/core/async.h"

#include "ripieno/core/error.h"

namespace ripieno {
namespace {

/// Counts tasks down and keeps the first error.
struct Awaited {
  Awaited(Runtime& runtime, std::size_t count, std::function<void(std::exception_ptr)> on_error)
      : done(runtime), left(count), on_error(std::move(on_error)) {}

  void end(std::exception_ptr error) {
    if (error && !first) {
      first = error;
      on_error(error);
    }
    if (--left == 0) done.set();
  }

  Event done;
  std::size_t left;
  std::function<void(std::exception_ptr)> on_error;
  std::exception_ptr first;
};

/// Tells a join that a task has ended. If a run ends early, tasks are destroyed without ending; then the coroutine that
/// waits for the join, and so holds it, is destroyed too.
class Ending {
 public:
  explicit Ending(std::shared_ptr<Awaited> join) : join_(std::move(join)) {}
  Ending(Ending&&) = default;
  ~Ending() {
    if (join_) const Event unfinished = std::move(join_->done);
  }
  void operator()(std::exception_ptr error) { std::exchange(join_, nullptr)->end(error); }

 private:
  std::shared_ptr<Awaited> join_;
};

}  // namespace

Flight::Flight(Runtime& runtime, Task<> task) : landed_(std::make_shared<Event>(runtime)) {
  asio::co_spawn(runtime.context(), std::move(task), [event = landed_](std::exception_ptr error) {
    if (error) {
      event->fail(error);
    } else {
      event->set();
    }
  });
}

Task<std::exception_ptr> loss_in(Task<> task) {
  std::exception_ptr loss;
  try {
    co_await std::move(task);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::peer) throw;
    loss = std::current_exception();
  }
  co_return loss;
}

Task<std::exception_ptr> error_of(Task<> task) {
  std::exception_ptr error;
  try {
    co_await std::move(task);
  } catch (...) {
    error = std::current_exception();
  }
  co_return error;
}

Task<> all(Runtime& runtime, std::vector<Task<>> tasks, std::function<void(std::exception_ptr)> on_error) {
  if (tasks.empty()) co_return;
  auto join = std::make_shared<Awaited>(runtime, tasks.size(), std::move(on_error));
  for (Task<>& task : tasks) {
    asio::co_spawn(runtime.context(), std::move(task), Ending(join));
  }
  co_await join->done.wait();
  if (join->first) std::rethrow_exception(join->first);
}

Task<> both(Runtime& runtime, Task<> a, Task<> b, std::function<void(std::exception_ptr)> on_error) {
  // Like all(), but b runs in the caller's own coroutine: one spawn less on the path of every step of every schedule.
  auto join = std::make_shared<Awaited>(runtime, 2, std::move(on_error));
  asio::co_spawn(runtime.context(), std::move(a), Ending(join));
  std::exception_ptr error;
  try {
    co_await std::move(b);
  } catch (...) {
    error = std::current_exception();
  }
  join->end(error);
  co_await join->done.wait();
  if (join->first) std::rethrow_exception(join->first);
}

}  // namespace ripieno
