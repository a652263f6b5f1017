#include "ripieno/data/prefetch.h"

#include <pthread.h>
#include <sched.h>

#include <utility>

namespace ripieno::data {

Prefetch::Prefetch(Loader& loader)
    : loader_(loader), bytes_(loader.dataset().bytes_read()), thread_([this] { serve(); }) {}

Prefetch::~Prefetch() {
  {
    const std::lock_guard lock(mutex_);
    state_ = State::ended;
  }
  changed_.notify_all();
  thread_.join();
}

Prefetch::Loaded Prefetch::load(BatchId id, Batch memory) {
  Loaded loaded;
  const std::uint64_t before = loader_.dataset().bytes_read();
  try {
    loaded.batch = loader_.load(id.epoch, id.step, std::move(memory));
  } catch (...) {
    loaded.error = std::current_exception();
  }
  loaded.bytes = loader_.dataset().bytes_read() - before;
  return loaded;
}

void Prefetch::serve() {
  const sched_param none{};
  pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);  // so that it never preempts compute; best effort
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return state_ == State::wanted || state_ == State::ended; });
    if (state_ == State::ended) return;
    state_ = State::loading;
    const BatchId id = id_;
    Batch memory = std::exchange(memory_, {});
    lock.unlock();
    Loaded loaded = load(id, std::move(memory));
    lock.lock();
    if (state_ == State::ended) return;
    loaded_ = std::move(loaded);
    state_ = State::ready;
    changed_.notify_all();
  }
}

Batch Prefetch::take(BatchId id) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return state_ != State::loading; });
  const bool ready = state_ == State::ready && id_.epoch == id.epoch && id_.step == id.step;
  Loaded loaded = ready ? std::exchange(loaded_, {}) : load(id, std::exchange(memory_, {}));
  bytes_ += loaded.bytes;
  const bool more = !loaded.error && id.step + 1 < loader_.steps();
  state_ = more ? State::wanted : State::idle;
  id_ = {id.epoch, id.step + 1};
  lock.unlock();
  if (more) changed_.notify_all();
  if (loaded.error) std::rethrow_exception(loaded.error);
  return std::move(loaded.batch);
}

void Prefetch::give_back(Batch batch) {
  const std::lock_guard lock(mutex_);
  memory_ = std::move(batch);
}

std::uint64_t Prefetch::bytes_read() {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace ripieno::data
