#include "ripieno/c10d/future_threads.h"

namespace ripieno::c10d {

void FutureThreads::close() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
    state_->changed.notify_all();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();  // a callback has let go of the group
    } else {
      thread.join();
    }
  }
}

void FutureThreads::run(std::function<void()> job) {
  const std::lock_guard lock(state_->mutex);
  if (state_->closed) return;
  state_->jobs.push_back(std::move(job));
  if (state_->jobs.size() > state_->idle) {
    threads_.emplace_back([state = state_] { work(state); });
  } else {
    state_->changed.notify_one();
  }
}

void FutureThreads::work(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    ++state->idle;
    state->changed.wait(lock, [&] { return state->closed || !state->jobs.empty(); });
    --state->idle;
    if (state->jobs.empty()) return;
    std::function<void()> job = std::move(state->jobs.front());
    state->jobs.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it holds may need other locks
    lock.lock();
  }
}

}  // namespace ripieno::c10d
