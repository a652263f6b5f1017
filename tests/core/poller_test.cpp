#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "ripieno/core/error.h"
#include "ripieno/core/runtime.h"

namespace ripieno {
namespace {

/// A box that another thread fills: whoever waits for a number in it is continued by poll(). The other thread wakes the
/// runtime's only where that has said that it sleeps.
class Box final : public Poller, public std::enable_shared_from_this<Box> {
 public:
  explicit Box(Runtime& runtime) : runtime_(runtime) {}

  void fill(int number) {  // from the other thread
    filled_.store(number);
    if (sleeping_.exchange(false)) asio::post(runtime_.context(), [] {});
  }
  static Task<> until(std::shared_ptr<Box> box, int number) {
    while (box->seen_ < number) {
      auto start = [box](Resume resume) { box->waiting_ = std::move(resume); };
      co_await suspend(start);
    }
  }

  bool poll() override {
    ++polls;
    const int number = filled_.load();
    if (number == seen_) return false;
    seen_ = number;
    if (waiting_)
      asio::post(runtime_.context(), [resume = std::exchange(waiting_, nullptr)]() mutable { resume(nullptr); });
    return true;
  }
  bool may_spin() const override { return spins; }
  bool sleep() override {
    ++sleeps;
    looks.push_back(std::exchange(polls, 0));
    spun.push_back(runtime_.now() - awake_);
    sleeping_.store(true);
    return filled_.load() == seen_;
  }
  std::optional<WakeUp> wake() override {
    ++wakes;
    sleeping_.store(false);
    awake_ = runtime_.now();
    return told;
  }

  bool spins = false;
  int sleeps = 0, wakes = 0;
  std::optional<WakeUp> told;  ///< what every wake() returns
  int polls = 0;
  std::vector<int> looks;      ///< polls before each sleep
  std::vector<Duration> spun;  ///< how long the runtime was awake before each sleep

 private:
  Runtime& runtime_;
  std::atomic<int> filled_{0};
  std::atomic<bool> sleeping_{false};
  int seen_ = 0;
  Duration awake_{0};
  Resume waiting_;
};

TEST(Poller, WhatAnotherThreadBringsIsNeverMissed) {
  for (const bool spins : {false, true}) {
    auto runtime = real_runtime(0);
    auto box = std::make_shared<Box>(*runtime);
    box->spins = spins;
    runtime->add_poller(box);
    constexpr int numbers = 2000;
    std::thread fills([&] {
      for (int i = 1; i <= numbers; ++i) {
        box->fill(i);
        if (i % 10 == 0) std::this_thread::yield();
      }
    });
    runtime->spawn("waits", Box::until(box, numbers));  // a lost wake-up would hang here
    runtime->run();
    fills.join();
    EXPECT_EQ(box->sleeps, box->wakes);
  }
}

TEST(Poller, MayComeWhileTheRuntimeBlocksAndGoAnyTime) {
  auto runtime = real_runtime(0);
  std::shared_ptr<Box> box;
  int still_there = -1;
  auto come_and_go = [](Runtime* r, std::shared_ptr<Box>* box, int* there) -> Task<> {
    co_await r->sleep(std::chrono::milliseconds(1));
    *box = std::make_shared<Box>(*r);
    r->add_poller(*box);
    (*box)->fill(1);
    co_await Box::until(*box, 1);
    std::weak_ptr<Box> gone = *box;
    box->reset();
    co_await r->sleep(std::chrono::milliseconds(1));
    *there = gone.expired() ? 0 : 1;
  };
  runtime->spawn("comes and goes", come_and_go(runtime.get(), &box, &still_there));
  runtime->run();
  EXPECT_EQ(still_there, 0);
}

TEST(Poller, TimersOffloadedWorkAndPostedHandlersHaveTheirTurn) {
  auto runtime = real_runtime(0);
  auto box = std::make_shared<Box>(*runtime);
  box->spins = true;
  box->told =
      WakeUp{std::chrono::microseconds(10)};  // on a machine whose wake-ups take long it would spin all the time
  runtime->add_poller(box);
  auto body = [](Runtime* r, std::shared_ptr<Box> box) -> Task<> {
    for (int i = 1; i <= 20; ++i) {
      auto work = [box, i] { box->fill(i); };
      co_await r->offload(Duration(0), work);
      co_await Box::until(box, i);
      co_await r->sleep(std::chrono::milliseconds(1));
    }
  };
  runtime->spawn("all three", body(runtime.get(), box));
  runtime->run();
  EXPECT_EQ(box->sleeps, box->wakes);
  EXPECT_GT(box->sleeps, 0);
}

/// A runtime that sleeps `times` times, and each time is woken by a timer.
std::shared_ptr<Box> slept(int times, std::optional<WakeUp> told) {
  auto runtime = real_runtime(0);
  auto box = std::make_shared<Box>(*runtime);
  box->spins = true;
  box->told = told;
  runtime->add_poller(box);
  auto body = [](Runtime* r, std::shared_ptr<Box> box, int times) -> Task<> {
    while (box->sleeps < times) co_await r->sleep(std::chrono::milliseconds(2));
  };
  runtime->spawn("sleeps", body(runtime.get(), box, times));
  runtime->run();
  return box;
}

TEST(Poller, IsSpunForTwiceAsLongAsAWakeUpTakes) {
  const Duration took = std::chrono::microseconds(400);
  const auto box = slept(3, WakeUp{took});
  for (std::size_t i = 1; i < box->spun.size(); ++i) EXPECT_GE(box->spun[i], 2 * took);
}

/// A peer on the same core answers so many questions, one after the other. Returns how often the runtime slept
/// meanwhile.
int sleeps_for_answers(int questions, bool tells_of_its_core) {
  auto runtime = real_runtime(0);
  auto box = std::make_shared<Box>(*runtime);
  box->spins = true;
  box->told = WakeUp{Duration(0), tells_of_its_core};
  runtime->add_poller(box);
  std::atomic<int> asked{0};
  std::thread peer([&] {
    for (int i = 1; i <= questions; ++i) {
      while (asked.load() < i) std::this_thread::yield();
      box->fill(i);
    }
  });
  auto ask = [](std::shared_ptr<Box> box, std::atomic<int>* asked, int questions) -> Task<> {
    for (int i = 1; i <= questions; ++i) {
      asked->store(i);
      co_await Box::until(box, i);
    }
  };
  runtime->spawn("asks", ask(box, &asked, questions));
  runtime->run();
  peer.join();
  return box->sleeps;
}

TEST(Poller, OffersTheCoreThatThePeerNeedsBeforeItSleeps) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);  // of this thread, and of those that it starts
  const int questions = 500, sleeps = sleeps_for_answers(questions, true),
            unknown = sleeps_for_answers(questions, false);
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_GT(sleeps, 0);
  EXPECT_LT(sleeps, questions / 4);
  EXPECT_GT(unknown, questions / 2) << "a spin that keeps the core keeps the answer, too";
}

TEST(SpinTime, IsTwiceTheMedianWakeUpWithinItsBounds) {
  using std::chrono::microseconds;
  SpinTime time;
  EXPECT_EQ(time.get(), microseconds(100));
  time.add(microseconds(-1));
  time.add(std::chrono::seconds(3));  // a core that was not free, or another clock
  EXPECT_EQ(time.get(), microseconds(100));
  for (int i = 0; i < 15; ++i) time.add(microseconds(i == 7 ? 900 : 40));
  EXPECT_EQ(time.get(), microseconds(80));
  for (int i = 0; i < 8; ++i) time.add(microseconds(300));
  EXPECT_EQ(time.get(), microseconds(600));
  for (int i = 0; i < 15; ++i) time.add(microseconds(1));
  EXPECT_EQ(time.get(), SpinTime::shortest);
  for (int i = 0; i < 15; ++i) time.add(microseconds(900));
  EXPECT_EQ(time.get(), SpinTime::longest);
}

TEST(Poller, VirtualTimeHasNone) {
  auto runtime = virtual_runtime(0);
  EXPECT_THROW(runtime->add_poller(std::make_shared<Box>(*runtime)), Error);
}

}  // namespace
}  // namespace ripieno
