// Synchronisation between coroutines on one runtime's thread.
#pragma once

#include <asio/co_spawn.hpp>
#include <deque>
#include <utility>

#include "ripieno/core/runtime.h"

namespace ripieno {

/// Happens once; all coroutines that wait for it continue, in the order in which they came.
class Event {
 public:
  explicit Event(Runtime& runtime) : runtime_(&runtime) {}

  bool is_set() const { return set_; }
  void set() { finish(nullptr); }
  /// All present and later waits throw the error.
  void fail(std::exception_ptr error) { finish(error); }

  Task<> wait() {
    auto start = [this](Resume resume) {
      if (set_) {
        later(std::move(resume));
      } else {
        waiting_.push_back(std::move(resume));
      }
    };
    return suspend(start);
  }

 private:
  void finish(std::exception_ptr error) {
    if (set_) return;
    set_ = true;
    error_ = error;
    for (auto& resume : std::exchange(waiting_, {})) later(std::move(resume));
  }
  void later(Resume resume) {
    asio::post(runtime_->context(), [resume = std::move(resume), error = error_]() mutable { resume(error); });
  }

  Runtime* runtime_;
  bool set_ = false;
  std::exception_ptr error_;
  std::vector<Resume> waiting_;
};

/// Held by one coroutine at a time, in the order of lock() calls.
class Mutex {
 public:
  explicit Mutex(Runtime& runtime) : runtime_(&runtime) {}

  class Lock {
   public:
    explicit Lock(Mutex* mutex) : mutex_(mutex) {}
    Lock(Lock&& other) noexcept : mutex_(std::exchange(other.mutex_, nullptr)) {}
    Lock& operator=(Lock&&) = delete;
    ~Lock() {
      if (mutex_) mutex_->release();
    }

   private:
    Mutex* mutex_;
  };

  Task<Lock> lock() {
    if (locked_) {
      auto start = [this](Resume resume) { waiting_.push_back(std::move(resume)); };
      co_await suspend(start);  // the releaser hands the lock over: locked_ stays true
    } else {
      locked_ = true;
    }
    co_return Lock(this);
  }

 private:
  void release() {
    if (waiting_.empty()) {
      locked_ = false;
      return;
    }
    Resume next = std::move(waiting_.front());
    waiting_.pop_front();
    asio::post(runtime_->context(), [next = std::move(next)]() mutable { next(nullptr); });
  }

  Runtime* runtime_;
  bool locked_ = false;
  std::deque<Resume> waiting_;
};

/// First in, first out, without bound; one reader waits at a time.
template <class T>
class Queue {
 public:
  explicit Queue(Runtime& runtime) : runtime_(&runtime) {}

  void push(T value) {
    values_.push_back(std::move(value));
    if (reader_) {
      asio::post(runtime_->context(), [resume = std::exchange(reader_, nullptr)]() mutable { resume(nullptr); });
    }
  }

  Task<T> pop() {
    while (values_.empty()) {
      auto start = [this](Resume resume) { reader_ = std::move(resume); };
      co_await suspend(start);
    }
    T value = std::move(values_.front());
    values_.pop_front();
    co_return value;
  }

 private:
  Runtime* runtime_;
  std::deque<T> values_;
  Resume reader_;
};

/// A task that runs beside the one that started it. Await landed() before destroying anything that the task uses, even
/// after an error: an owner that ends early makes its flights end (Endpoint::abort) and awaits them.
class Flight {
 public:
  Flight(Runtime& runtime, Task<> task);

  /// Waits for the task's end and throws its error.
  Task<> landed() { return wait(landed_); }

 private:
  static Task<> wait(std::shared_ptr<Event> event) { co_await event->wait(); }
  std::shared_ptr<Event> landed_;
};

/// Awaits the task; returns the error that ended it, or null.
Task<std::exception_ptr> error_of(Task<> task);
/// The Error(peer) that ended the task, or null; throws any other error.
Task<std::exception_ptr> loss_in(Task<> task);

/// Runs all tasks at once and returns when every one has ended. The first error, which caused the others, is passed to
/// `on_error` (which should end the other tasks) and is thrown at the end.
Task<> all(Runtime& runtime, std::vector<Task<>> tasks, std::function<void(std::exception_ptr)> on_error);

/// all() of two tasks.
Task<> both(Runtime& runtime, Task<> a, Task<> b, std::function<void(std::exception_ptr)> on_error);

}  // namespace ripieno
