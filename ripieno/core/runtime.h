// Runtime: Ripieno's only access to time, waiting, randomness and blocking work, so that the same code runs in real or
// in virtual time. In virtual time, when nothing is ready, the clock jumps to the next timer, which fires at once;
// offloaded work runs inline and is charged its stated cost. A cluster of thousands of workers is then one
// deterministic thread. This works only if no code bypasses the runtime; tests/rooms/runtime_test.py greps for that.
#pragma once

#include <algorithm>
#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ripieno/core/callback.h"
#include "ripieno/core/random.h"
#include "ripieno/core/spin_time.h"
#include "ripieno/core/timeline.h"

namespace ripieno {

inline double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
/// To the nearest picosecond, clamped to 100 days.
inline Duration from_seconds(double s) { return Duration(std::llround(std::clamp(s, -8.64e6, 8.64e6) * 1e12)); }

/// A coroutine. Take parameters by value; name closures and braced values before a co_await uses them (g++ 12 destroys
/// temporaries of a co_await expression twice); do not write `c ? co_await a() : co_await b()`.
template <class T = void>
using Task = asio::awaitable<T, asio::any_io_executor>;

/// Resumes a suspended coroutine, with or without an error. Call it once, on the runtime's thread. If it is destroyed
/// uncalled, it destroys the coroutine.
class Resume {
 public:
  using Handler = asio::async_result<asio::use_awaitable_t<>, void(std::exception_ptr)>::handler_type;

  Resume() = default;
  Resume(std::nullptr_t) {}  // NOLINT: implicit, as of a pointer
  explicit Resume(Handler handler) { put(std::move(handler)); }
  Resume(Resume&& other) noexcept { take(other); }
  Resume& operator=(Resume&& other) noexcept {
    if (this == &other) return *this;
    clear();
    take(other);
    return *this;
  }
  ~Resume() { clear(); }

  explicit operator bool() const { return has_handler_; }
  /// Must not be empty; it is empty afterwards.
  void operator()(std::exception_ptr error) {
    Handler handler = std::move(this->handler());
    clear();
    handler(std::move(error));
  }

 private:
  Handler& handler() { return *std::launder(reinterpret_cast<Handler*>(room_)); }
  void put(Handler handler) {
    new (room_) Handler(std::move(handler));
    has_handler_ = true;
  }
  void take(Resume& other) {
    if (!other.has_handler_) return;
    put(std::move(other.handler()));
    other.clear();
  }
  void clear() {
    if (std::exchange(has_handler_, false)) handler().~Handler();
  }

  alignas(Handler) std::byte room_[sizeof(Handler)] = {};
  bool has_handler_ = false;
};

/// Suspends the caller and passes `start` the Resume that continues it.
template <class Start>
Task<> suspend(Start start) {
  auto initiate = [](Resume::Handler handler, Start begin) { begin(Resume(std::move(handler))); };
  return asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr)>(initiate, asio::use_awaitable,
                                                                                       std::move(start));
}

/// A source of events besides timers, sockets and posted work: memory that other processes write. All calls are made on
/// the runtime's thread.
class Poller {
 public:
  virtual ~Poller() = default;
  /// Handles what has arrived, and resumes coroutines by posting to the runtime's context. Returns whether there was
  /// anything.
  virtual bool poll() = 0;
  /// Whether polling for a moment before blocking is worthwhile.
  virtual bool may_spin() const = 0;
  /// Announces that the thread is about to block: from now on writers wake it, through a descriptor that the context
  /// watches. False if something has arrived meanwhile.
  virtual bool sleep() = 0;
  /// The thread polls by itself again. Follows every sleep(). Returns how a peer ended that sleep, where it is known.
  virtual std::optional<WakeUp> wake() = 0;
};

class Runtime {
 public:
  using Callback = ripieno::Callback;
  using Timer = std::uint64_t;

  /// `concurrency`: asio's hint for the context.
  explicit Runtime(std::uint64_t seed, int concurrency = ASIO_CONCURRENCY_HINT_DEFAULT)
      : context_(concurrency), seed_(seed) {}
  virtual ~Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  asio::io_context& context() { return context_; }

  /// Time since the runtime was made.
  virtual Duration now() const = 0;
  virtual bool is_virtual() const = 0;
  /// Whether offloaded work is running beside the runtime's thread, and may need its core.
  virtual bool is_computing() const { return false; }
  /// Between two looks of a spin on the runtime's thread: a short pause; where another process has lately needed this
  /// core, it is offered to others.
  virtual void pause_spinning() const {}

  /// Calls back on the runtime's thread once `when` has come.
  virtual Timer call_at(Duration when, Callback callback) = 0;
  /// The timer will not fire, even if its time has come. Cancelling a fired timer is no error.
  virtual void cancel(Timer timer) = 0;
  /// How many timers have fired: in virtual time, the cost of a run.
  std::uint64_t fired() const { return fired_; }

  Task<> sleep(Duration d);
  /// Lets everything else that is ready run first.
  Task<> yield();
  Random random(std::uint64_t stream) const { return Random(seed_, stream); }

  /// Runs blocking `work` on the runtime's worker thread and awaits its result. In virtual time: runs it inline, then
  /// lets `cost` pass.
  template <class Work>
  Task<std::invoke_result_t<Work>> offload(Duration cost, Work work);

  /// Starts a task that run() waits for; its name appears in errors.
  void spawn(std::string name, Task<> task);
  /// Runs until every spawned task has ended. The first error of a task ends all and is thrown.
  void run();

  /// How drive() waits: it may spin, or it blocks to leave the core to a computing thread.
  enum class Wait : std::uint8_t { may_spin, blocks };
  /// Runs handlers until `until()` is true; it is checked between handlers. Used by progress.h. On one thread at a
  /// time, which is the runtime's thread meanwhile.
  void drive(const std::function<bool()>& until, Wait wait = Wait::may_spin);
  /// Starts a task that run() does not wait for; `ended` is called on the runtime's thread, with the task's error or
  /// null. In real time from any thread; tasks begin in the order of these calls.
  void start(std::string name, Task<> task, std::function<void(std::exception_ptr)> ended);
  /// Makes drive() check its `until` again soon. From any thread.
  void interrupt() {
    asio::post(context_, [this] { context_.stop(); });
  }
  /// Polls `poller` for as long as it lives. In real time only; the poller must not outlive the runtime.
  void add_poller(std::weak_ptr<Poller> poller);
  /// Registers a description of what a component waits for ("" for nothing), for the error of a stalled run in virtual
  /// time.
  void explain_stall(std::function<std::string()> waits) { stalls_.push_back(std::move(waits)); }

 protected:
  /// Runs handlers until `until()`.
  virtual void loop(const std::function<bool()>& until, Wait wait) = 0;
  virtual void post_to_thread(Callback work) = 0;
  void count_fired() { ++fired_; }
  bool finished() const { return running_ == 0 || error_; }
  std::string stalled() const;
  /// The pollers that still live.
  std::vector<std::shared_ptr<Poller>> pollers();
  bool has_pollers() const { return !pollers_.empty(); }

  /// Destroys the coroutines that still wait, while now() still works: every derived destructor calls it.
  void destroy_waiting() { context_.destroy_waiting(); }

  struct Context : asio::io_context {
    using asio::io_context::io_context;
    void destroy_waiting() { shutdown(); }
  };
  Context context_;

 private:
  std::uint64_t seed_;
  std::size_t running_ = 0;
  std::map<std::uint64_t, std::string> tasks_;
  std::vector<std::function<std::string()>> stalls_;
  std::vector<std::weak_ptr<Poller>> pollers_;
  std::uint64_t next_id_ = 0, fired_ = 0;
  const std::function<bool()>* until_ = nullptr;  // of the running drive()
  std::exception_ptr error_;
};

/// A runtime on the steady clock. Offloaded work runs on one dedicated thread, so that LibTorch's and OpenMP's
/// per-thread state stays there.
std::unique_ptr<Runtime> real_runtime(std::uint64_t seed);

/// A runtime in virtual time, which starts at zero.
std::unique_ptr<Runtime> virtual_runtime(std::uint64_t seed);

template <class Work>
Task<std::invoke_result_t<Work>> Runtime::offload(Duration cost, Work work) {
  using Result = std::invoke_result_t<Work>;
  using Slot = std::conditional_t<std::is_void_v<Result>, bool, std::optional<Result>>;
  Slot slot{};
  auto compute = [&slot, &work] {
    if constexpr (std::is_void_v<Result>) {
      work();
      slot = true;
    } else {
      slot.emplace(work());
    }
  };
  if (is_virtual()) {
    compute();
    co_await sleep(cost);
  } else {
    auto start = [this, &compute](Resume resume) {
      post_to_thread([this, &compute, resume = std::move(resume)]() mutable {
        std::exception_ptr error;
        try {
          compute();
        } catch (...) {
          error = std::current_exception();
        }
        asio::post(context_, [resume = std::move(resume), error]() mutable { resume(error); });
      });
    };
    co_await suspend(start);
  }
  if constexpr (!std::is_void_v<Result>) co_return std::move(*slot);
}

/// Seconds since 1970 (UTC), for comparing runs on several machines; all other times come from the runtime.
double unix_time();

}  // namespace ripieno
