#include "ripieno/core/runtime.h"

#include <asio/co_spawn.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>
#include <atomic>
#include <optional>
#include <thread>
#include <unordered_map>

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
    alarm_.reset();
    times_.clear();
    { const auto gone = std::exchange(timers_, {}); }  // callbacks, whose destructors may cancel timers or set others
    destroy_waiting();
  }

  Duration now() const override {
    return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - start_);
  }
  bool is_virtual() const override { return false; }
  bool is_computing() const override {
    return offloaded_.load(std::memory_order_relaxed) > 0 || yields_core_.load(std::memory_order_relaxed);
  }

  void pause_spinning() const override { unspun_ > 0 ? std::this_thread::yield() : pause_briefly(); }

  Timer call_at(Duration when, Callback callback) override {
    const Timer id = next_timer_++;
    timers_.emplace(std::pair(when, id), std::move(callback));
    times_.emplace(id, when);
    if (when < alarm_at_) set_alarm();
    return id;
  }

  void cancel(Timer timer) override { static_cast<void>(take(timer)); }

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
  static constexpr int most_unspun = 1024;

  /// Null if it has fired or was cancelled.
  Callback take(Timer timer) {
    const auto time = times_.find(timer);
    if (time == times_.end()) return nullptr;
    const auto at = timers_.find({time->second, timer});
    Callback callback = std::move(at->second);
    timers_.erase(at);
    times_.erase(time);
    return callback;
  }

  bool is_due(Duration when) const { return when <= now() + std::chrono::nanoseconds(1); }  // the alarm's resolution

  /// One alarm serves all timers. It stays where it is when the first one is cancelled, since setting it takes a system
  /// call, and most timers are limits that are never reached.
  void set_alarm() {
    alarm_at_ = timers_.empty() ? never : timers_.begin()->first.first;
    if (timers_.empty() || !alarm_) return;
    if (is_due(alarm_at_)) return asio::post(context_, [this] { ring(); });
    alarm_->expires_at(start_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(alarm_at_));
    alarm_->async_wait([this](asio::error_code error) {
      if (!error) ring();
    });
  }
  void ring() {
    alarm_at_ = never;
    if (timers_.empty()) return;
    const auto [when, id] = timers_.begin()->first;
    if (!is_due(when)) return set_alarm();
    Callback callback = take(id);
    set_alarm();
    count_fired();
    callback();
  }

  /// Runs ready handlers and polls; if there is nothing, spins for a moment and then blocks.
  void look_around(const std::function<bool()>& until) {
    bool active = run_ready();
    if (until()) return;
    const auto present = pollers();
    for (const auto& poller : present) active |= poller->poll();
    if (active) return;
    const bool may = may_spin(present), spun = may && unspun_ == 0;
    const bool has_come = may && spin(present);
    if (unspun_ > 0) --unspun_;
    if (has_come) return;
    if (until()) return;
    bool quiet = true;
    for (const auto& poller : present) quiet = poller->sleep() && quiet;
    if (quiet) context_.run_one();
    for (const auto& poller : present) {
      if (const auto wake_up = poller->wake()) learn(*wake_up, spun);
    }
  }

  /// Where spinning brought nothing, and the other side then answered from this core, it had needed it. The next waits
  /// offer the core to others between looks; their number grows each time that this happens. They do not sleep at once:
  /// of two ranks that take turns in sleeping, only one can run at a time, and the system never gives them a core each.
  void learn(WakeUp wake_up, bool spun) {
    spin_time_.add(wake_up.took);
    if (!spun || !wake_up.shares_core) return;
    unspun_next_ = std::min(most_unspun, 2 * unspun_next_ + 8);
    unspun_ = unspun_next_;
  }

  /// Never beside offloaded work, which may need this core and computes what this thread waits for.
  bool may_spin(const std::vector<std::shared_ptr<Poller>>& pollers) {
    for (const auto& poller : pollers) {
      if (!poller->may_spin()) return false;
    }
    return !pollers.empty() && !is_computing();
  }

  /// Runs a few handlers at a time, so that handlers that post each other do not starve the pollers.
  bool run_ready() {
    int ran = 0;
    while (ran < handlers_between_looks && context_.poll_one() > 0) ++ran;
    return ran > 0;
  }

  /// Polls all pollers for a moment; returns whether anything had arrived.
  bool spin(const std::vector<std::shared_ptr<Poller>>& pollers) {
    const Duration end = now() + spin_time_.get();
    while (!is_computing() && now() < end) {
      bool active = false;
      for (int i = 0; i < looks_between_handlers && !active; ++i) {
        for (const auto& poller : pollers) active |= poller->poll();
        pause_spinning();
      }
      if (active || run_ready()) {
        if (unspun_ == 0) unspun_next_ /= 2;
        return true;
      }
    }
    return false;
  }

  std::atomic<int> offloaded_{0};
  std::atomic<bool> yields_core_{false};
  SpinTime spin_time_;
  int unspun_ = 0;       // coming waits that do not spin
  int unspun_next_ = 0;  // how many, after the next vain spin
  std::chrono::steady_clock::time_point start_;
  static constexpr Duration never = Duration::max();
  std::map<std::pair<Duration, Timer>, Callback> timers_;  ///< in the order in which they fire
  std::unordered_map<Timer, Duration> times_;
  Timer next_timer_ = 1;
  std::optional<asio::steady_timer> alarm_{std::in_place, context_};
  Duration alarm_at_ = never;  ///< when it rings next
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
