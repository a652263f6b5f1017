#include "ripieno/core/runtime.h"

#include <asio/co_spawn.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>
#include <atomic>

#include "ripieno/core/error.h"
#include "ripieno/core/pause.h"

namespace ripieno {

Task<> Runtime::yield() {
  auto start = [this](Resume resume) {
    asio::post(context_, [resume = std::move(resume)]() mutable { resume(nullptr); });
  };
  return suspend(start);
}

Task<> Runtime::sleep(Duration d) {
  auto start = [this, when = now() + d](Resume resume) {
    call_at(when, [resume = std::move(resume)]() mutable { resume(nullptr); });
  };
  return suspend(start);
}

void Runtime::spawn(std::string name, Task<> task) {
  ++running_;
  start(std::move(name), std::move(task), [this](std::exception_ptr error) {
    --running_;
    if (error && !error_) error_ = error;
  });
}

void Runtime::run() {
  error_ = nullptr;
  drive([this] { return finished(); });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Runtime::drive(const std::function<bool()>& until, Wait wait) {
  until_ = &until;
  loop(until, wait);
  until_ = nullptr;
}

void Runtime::start(std::string name, Task<> task, std::function<void(std::exception_ptr)> ended) {
  const std::uint64_t id = is_virtual() ? next_id_++ : 0;
  if (is_virtual()) tasks_.emplace(id, std::move(name));  // for stalled()
  asio::co_spawn(context_, std::move(task), [this, id, ended = std::move(ended)](std::exception_ptr error) {
    if (is_virtual()) tasks_.erase(id);
    ended(error);
    if (until_ && (*until_)()) context_.stop();
  });
}

void Runtime::add_poller(std::weak_ptr<Poller> poller) {
  require(!is_virtual(), "virtual time has nobody outside to poll for");
  pollers_.push_back(std::move(poller));
  context_.stop();  // a running loop starts again and finds it
}

std::vector<std::shared_ptr<Poller>> Runtime::pollers() {
  std::vector<std::shared_ptr<Poller>> alive;
  std::erase_if(pollers_, [&alive](const std::weak_ptr<Poller>& weak) {
    if (auto poller = weak.lock()) alive.push_back(std::move(poller));
    return weak.expired();
  });
  return alive;
}

std::string Runtime::stalled() const {
  std::string all;
  for (const auto& [id, name] : tasks_) all += (all.empty() ? "" : ", ") + name;
  for (const auto& waits : stalls_) {
    const std::string line = waits();
    if (!line.empty()) all += "; " + line;
  }
  return all;
}

namespace {

class RealRuntime final : public Runtime {
 public:
  explicit RealRuntime(std::uint64_t seed) : Runtime(seed), start_(std::chrono::steady_clock::now()) {}
  ~RealRuntime() override {
    thread_.join();
    timers_.clear();
    destroy_waiting();
  }

  Duration now() const override {
    return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - start_);
  }
  bool is_virtual() const override { return false; }
  bool is_computing() const override {
    return offloaded_.load(std::memory_order_relaxed) > 0 || yields_core_.load(std::memory_order_relaxed);
  }

  Timer call_at(Duration when, Callback callback) override {
    auto timer = std::make_unique<asio::steady_timer>(
        context_, start_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(when));
    const Timer id = next_timer_++;
    timer->async_wait([this, id, callback = std::move(callback)](asio::error_code error) mutable {
      // Asio calls back without an error if the timer had expired before it was cancelled.
      if (timers_.erase(id) == 0 || error) return;
      count_fired();
      callback();
    });
    timers_.emplace(id, std::move(timer));
    return id;
  }

  void cancel(Timer timer) override { timers_.erase(timer); }

 protected:
  void loop(const std::function<bool()>& until, Wait wait) override {
    auto keep_running = asio::make_work_guard(context_);
    yields_core_.store(wait == Wait::blocks, std::memory_order_relaxed);
    while (!until()) {
      context_.restart();
      if (has_pollers()) {
        look_around(until);
      } else {
        context_.run();
      }
    }
    yields_core_.store(false, std::memory_order_relaxed);
  }
  void post_to_thread(Callback work) override {
    offloaded_.fetch_add(1, std::memory_order_relaxed);
    asio::post(thread_, [this, work = std::move(work)]() mutable {
      work();
      offloaded_.fetch_sub(1, std::memory_order_relaxed);
    });
  }

 private:
  static constexpr int handlers_between_looks = 32;
  static constexpr int looks_between_handlers = 32;
  static constexpr auto spin_time = std::chrono::microseconds(50);
  static constexpr int most_unspun = 1024;

  /// Runs ready handlers and polls; if there is nothing, spins for a moment and then blocks.
  void look_around(const std::function<bool()>& until) {
    bool active = run_ready();
    if (until()) return;
    const auto present = pollers();
    for (const auto& poller : present) active |= poller->poll();
    if (active) return;
    const bool spun = may_spin(present);
    if (spun && spin(present)) return;
    if (until()) return;
    bool quiet = true;
    for (const auto& poller : present) quiet = poller->sleep() && quiet;
    const auto asleep = std::chrono::steady_clock::now();
    if (quiet) context_.run_one();
    for (const auto& poller : present) poller->wake();
    // Spinning brought nothing, but sleeping did at once: the other side needed this core. The next waits do not spin;
    // their number grows each time that this happens.
    if (spun && quiet && std::chrono::steady_clock::now() - asleep < spin_time) {
      unspun_next_ = std::min(most_unspun, 2 * unspun_next_ + 8);
      unspun_ = unspun_next_;
    }
  }

  /// Never beside offloaded work, which may need this core and computes what this thread waits for.
  bool may_spin(const std::vector<std::shared_ptr<Poller>>& pollers) {
    for (const auto& poller : pollers) {
      if (!poller->may_spin()) return false;
    }
    if (pollers.empty() || is_computing()) return false;
    if (unspun_ > 0) return --unspun_, false;
    return true;
  }

  /// Runs a few handlers at a time, so that handlers that post each other do not starve the pollers.
  bool run_ready() {
    int ran = 0;
    while (ran < handlers_between_looks && context_.poll_one() > 0) ++ran;
    return ran > 0;
  }

  /// Polls all pollers; returns whether anything had arrived.
  bool spin(const std::vector<std::shared_ptr<Poller>>& pollers) {
    const auto end = std::chrono::steady_clock::now() + spin_time;
    while (!is_computing() && std::chrono::steady_clock::now() < end) {
      bool active = false;
      for (int i = 0; i < looks_between_handlers && !active; ++i) {
        for (const auto& poller : pollers) active |= poller->poll();
        pause_briefly();
      }
      if (active || run_ready()) {
        unspun_next_ /= 2;
        return true;
      }
    }
    return false;
  }

  std::atomic<int> offloaded_{0};
  std::atomic<bool> yields_core_{false};
  int unspun_ = 0;       // coming waits that do not spin
  int unspun_next_ = 0;  // how many, after the next vain spin
  std::chrono::steady_clock::time_point start_;
  std::map<Timer, std::unique_ptr<asio::steady_timer>> timers_;
  Timer next_timer_ = 1;
  asio::thread_pool thread_{1};
};

class VirtualRuntime final : public Runtime {
 public:
  /// No two threads touch it at once, so it needs no locks.
  explicit VirtualRuntime(std::uint64_t seed) : Runtime(seed, ASIO_CONCURRENCY_HINT_UNSAFE) {}
  ~VirtualRuntime() override {
    timeline_.clear();
    destroy_waiting();
  }

  Duration now() const override { return now_; }
  bool is_virtual() const override { return true; }

  Timer call_at(Duration when, Callback callback) override {
    require(when >= now_, "a timer for ", when.count(), " ps is set at ", now_.count(), " ps: in the past");
    return timeline_.add(when, std::move(callback));
  }

  void cancel(Timer timer) override { timeline_.remove(timer); }

 protected:
  void loop(const std::function<bool()>& until, Wait) override {
    while (!until()) {
      if (context_.stopped()) context_.restart();
      context_.poll();
      if (until()) return;
      if (timeline_.empty()) {
        fail(ErrorKind::internal, "virtual time stands still at ", now_.count(),
             " ps: nothing is ready, no timer is set, ", "and these wait: ", stalled());
      }
      Callback callback = timeline_.take(now_);
      count_fired();
      callback();
    }
  }
  void post_to_thread(Callback) override { fail(ErrorKind::internal, "virtual time has no threads"); }

 private:
  Duration now_{0};
  Timeline timeline_;
};

}  // namespace

std::unique_ptr<Runtime> real_runtime(std::uint64_t seed) { return std::make_unique<RealRuntime>(seed); }
std::unique_ptr<Runtime> virtual_runtime(std::uint64_t seed) { return std::make_unique<VirtualRuntime>(seed); }

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace ripieno
