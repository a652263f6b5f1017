#include "ripieno/core/progress.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <iostream>
#include <mutex>
#include <thread>

#include "ripieno/core/error.h"

namespace ripieno {

/// Shared with the submitted work.
struct Progress::Core {
  explicit Core(Runtime& its_runtime) : runtime(its_runtime) {}

  /// Drives on the calling thread, which holds `lock` before and after.
  void drive(std::unique_lock<std::mutex>& lock, const std::function<bool()>& until, Runtime::Wait wait);
  void work_in_background();
  void wait_for(const Work::State& state);
  void stop_background(std::unique_lock<std::mutex>& lock);
  void submit(std::string name, Task<> task, const std::shared_ptr<Work::State>& state, bool in_background);

  Runtime& runtime;
  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  bool driven = false;                // a thread drives the runtime
  bool by_background = false;         // that thread is the library's
  std::atomic<int> waiting{0};        // threads in wait(); they drive in place of the library's
  std::atomic<int> in_background{0};  // unfinished tasks, except those waited for from the start
  std::atomic<bool> closed{false};
  std::exception_ptr broken;      // thrown by the runtime on the library's thread; nothing goes on then
  std::atomic<bool> told{false};  // somebody has got a task's error
  std::thread thread;             // starts with the first task that nobody waits for at once
};

struct Work::State {
  State(std::shared_ptr<Progress::Core> its_core, std::string its_name)
      : core(std::move(its_core)), name(std::move(its_name)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { tell_unseen(); }

  /// An error that nobody has got is told on standard error, unless it may follow from one that somebody got.
  void tell_unseen() const;

  const std::shared_ptr<Progress::Core> core;
  const std::string name;
  std::atomic<bool> ended{false};
  std::exception_ptr error;  // written before `ended`
};

void Work::State::tell_unseen() const {
  if (!error || core->told.exchange(true)) return;
  std::string why = "an error that is no std::exception";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    why = known.what();
  } catch (...) {  // as it says
  }
  std::cerr << text("ripieno: ", name, " failed, and nobody waited for it: ", why, "\n") << std::flush;
}

bool Work::test() const { return !state_ || state_->ended.load(std::memory_order_acquire); }

std::exception_ptr Work::error() const {
  if (!state_ || !test() || !state_->error) return nullptr;
  state_->core->told = true;
  return state_->error;
}

void Work::wait() const {
  if (!state_) fail(ErrorKind::usage, "wait() for a Work that no task was submitted for");
  if (!test()) state_->core->wait_for(*state_);
  if (const auto error = this->error()) std::rethrow_exception(error);
}

void Progress::Core::drive(std::unique_lock<std::mutex>& lock, const std::function<bool()>& until, Runtime::Wait wait) {
  driven = true;
  by_background = wait == Runtime::Wait::blocks;
  lock.unlock();
  std::exception_ptr error;
  try {
    runtime.drive(until, wait);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  driven = by_background = false;
  if (error && !broken) broken = error;
  changed.notify_all();
}

/// Drives while there are tasks that nobody waits for, else sleeps.
void Progress::Core::work_in_background() {
  const auto has_work = [this] { return in_background.load() > 0 && waiting.load() == 0; };
  std::unique_lock lock(mutex);
  while (!closed.load() && !broken) {
    if (has_work() && !driven) {
      drive(
          lock, [&] { return closed.load() || !has_work(); }, Runtime::Wait::blocks);
    } else {
      changed.wait(lock);
    }
  }
}

/// Drives if no other thread does; else sleeps while another waiting thread drives for both.
void Progress::Core::wait_for(const Work::State& state) {
  const auto ended = [&] { return state.ended.load(std::memory_order_acquire) || closed.load(); };
  ++waiting;
  std::unique_lock lock(mutex);
  while (!ended() && !broken) {
    if (!driven) {
      drive(lock, ended, Runtime::Wait::may_spin);
      continue;
    }
    if (by_background) runtime.interrupt();
    changed.wait(lock);
  }
  if (--waiting == 0) changed.notify_all();
  if (state.ended.load()) return;
  if (broken) std::rethrow_exception(broken);
  fail(ErrorKind::usage, "a task is waited for whose Progress is gone: keep the cluster as long as its work");
}

/// Returns once the library's thread does not drive; while `waiting` is above 0 it does not begin again.
void Progress::Core::stop_background(std::unique_lock<std::mutex>& lock) {
  while (driven && by_background && !closed.load() && !broken) {
    runtime.interrupt();
    changed.wait(lock);
  }
}

void Progress::Core::submit(std::string name, Task<> task, const std::shared_ptr<Work::State>& state, bool background) {
  const std::lock_guard lock(mutex);
  if (background) {
    ++in_background;
    if (!thread.joinable() && !runtime.is_virtual()) thread = std::thread([this] { work_in_background(); });
  }
  runtime.start(std::move(name), std::move(task), [this, state, background](std::exception_ptr error) {
    state->error = error;
    state->ended.store(true, std::memory_order_release);
    if (background) --in_background;
    const std::lock_guard ended(mutex);
    changed.notify_all();
  });
  changed.notify_all();
}

Progress::Progress(Runtime& runtime) : core_(std::make_shared<Core>(runtime)) {}

Progress::~Progress() {
  {
    const std::lock_guard lock(core_->mutex);
    core_->closed = true;
    if (core_->driven) core_->runtime.interrupt();
    core_->changed.notify_all();
  }
  if (core_->thread.joinable()) core_->thread.join();
}

Work Progress::submit(std::string name, Task<> task) {
  auto state = std::make_shared<Work::State>(core_, name);
  core_->submit(std::move(name), std::move(task), state, true);
  return Work(std::move(state));
}

Work Progress::begin(std::string name, Task<> task) {
  auto state = std::make_shared<Work::State>(core_, name);
  core_->submit(std::move(name), std::move(task), state, false);
  return Work(std::move(state));
}

void Progress::run(std::string name, Task<> task) { begin(std::move(name), std::move(task)).wait(); }

void Progress::run_here(std::string name, Task<> task) {
  ++core_->waiting;
  {
    std::unique_lock lock(core_->mutex);
    core_->stop_background(lock);
  }
  const Work work = begin(std::move(name), std::move(task));
  const auto wait = [&] {
    try {
      work.wait();
    } catch (...) {
      return std::current_exception();
    }
    return std::exception_ptr();
  };
  const std::exception_ptr error = wait();
  const std::lock_guard lock(core_->mutex);
  if (--core_->waiting == 0) core_->changed.notify_all();
  if (error) std::rethrow_exception(error);
}

}  // namespace ripieno
