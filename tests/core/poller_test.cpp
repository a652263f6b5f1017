#include <gtest/gtest.h>

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
    sleeping_.store(true);
    return filled_.load() == seen_;
  }
  void wake() override {
    ++wakes;
    sleeping_.store(false);
  }

  bool spins = false;
  int sleeps = 0, wakes = 0;

 private:
  Runtime& runtime_;
  std::atomic<int> filled_{0};
  std::atomic<bool> sleeping_{false};
  int seen_ = 0;
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
  runtime->add_poller(box);
  auto body = [](Runtime* r, std::shared_ptr<Box> box) -> Task<> {
    for (int i = 1; i <= 20; ++i) {
      auto work = [box, i] { box->fill(i); };
      co_await r->offload(Duration(0), work);
      co_await Box::until(box, i);
      co_await r->sleep(std::chrono::microseconds(100));
    }
  };
  runtime->spawn("all three", body(runtime.get(), box));
  runtime->run();
  EXPECT_EQ(box->sleeps, box->wakes);
  EXPECT_GT(box->sleeps, 0);
}

TEST(Poller, VirtualTimeHasNone) {
  auto runtime = virtual_runtime(0);
  EXPECT_THROW(runtime->add_poller(std::make_shared<Box>(*runtime)), Error);
}

}  // namespace
}  // namespace ripieno
