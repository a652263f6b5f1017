#include "ripieno/core/runtime.h"

#include <gtest/gtest.h>

#include <thread>

#include "ripieno/core/async.h"
#include "ripieno/core/error.h"

namespace ripieno {
namespace {

Task<> sleep_and_note(Runtime* runtime, Duration d, std::vector<std::int64_t>* log) {
  co_await runtime->sleep(d);
  log->push_back(runtime->now().count());
}

TEST(VirtualRuntime, JumpsToTheNextTimerInOrder) {
  auto runtime = virtual_runtime(0);
  std::vector<std::int64_t> log;
  for (const std::int64_t at : {30, 10, 20, 10})
    runtime->spawn("sleeper", sleep_and_note(runtime.get(), Duration(at), &log));
  runtime->run();
  EXPECT_EQ(log, (std::vector<std::int64_t>{10, 10, 20, 30}));
}

Task<> compute(Runtime* runtime, int* result) {
  auto work = [] { return 42; };
  *result = co_await runtime->offload(Duration(1000), work);
}

TEST(VirtualRuntime, ChargesOffloadedWork) {
  auto runtime = virtual_runtime(0);
  int result = 0;
  runtime->spawn("compute", compute(runtime.get(), &result));
  runtime->run();
  EXPECT_EQ(result, 42);
  EXPECT_EQ(runtime->now().count(), 1000);
}

Task<> where_work_runs(Runtime* runtime, std::vector<std::thread::id>* threads) {
  auto here = [] { return std::this_thread::get_id(); };
  for (int i = 0; i < 3; ++i) threads->push_back(co_await runtime->offload(Duration(0), here));
  threads->push_back(std::this_thread::get_id());
}

TEST(Runtime, ATimerThatIsCancelledWhenItsTimeHasComeDoesNotFire) {
  std::unique_ptr<Runtime> kinds[] = {virtual_runtime(0), real_runtime(0)};
  for (auto& runtime : kinds) {
    int fired = 0;
    std::vector<Runtime::Timer> timers;
    const auto cancel_others = [&] {
      ++fired;
      for (const Runtime::Timer timer : timers) runtime->cancel(timer);
    };
    for (int i = 0; i < 4; ++i)
      timers.push_back(runtime->call_at(runtime->now(), cancel_others));  // all have come at once
    runtime->spawn("sleeper", runtime->sleep(from_seconds(1e-3)));
    runtime->run();
    EXPECT_EQ(fired, 1) << (runtime->is_virtual() ? "virtual" : "real");
  }
}

TEST(Runtime, TimersFireInTheOrderOfTheirTimes) {
  std::unique_ptr<Runtime> kinds[] = {virtual_runtime(0), real_runtime(0)};
  for (auto& runtime : kinds) {
    std::vector<int> fired;
    const auto at = [&](int ms, int what) {
      return runtime->call_at(from_seconds(1e-3 * ms), [&fired, what] { fired.push_back(what); });
    };
    at(40, 5);
    at(20, 2);
    at(20, 3);
    const Runtime::Timer cancelled = at(1, 0);
    runtime->cancel(cancelled);  // the first of all
    runtime->cancel(cancelled);
    runtime->call_at(from_seconds(0.01), [&] {
      fired.push_back(1);
      at(30, 4);  // earlier than what has been set before
    });
    runtime->spawn("sleeper", runtime->sleep(from_seconds(0.05)));
    runtime->run();
    EXPECT_EQ(fired, (std::vector<int>{1, 2, 3, 4, 5})) << (runtime->is_virtual() ? "virtual" : "real");
    EXPECT_EQ(runtime->fired(), 6u);
  }
}

TEST(RealRuntime, OffloadsToOneOtherThread) {
  auto runtime = real_runtime(0);
  int result = 0;
  std::vector<std::thread::id> threads;
  runtime->spawn("compute", compute(runtime.get(), &result));
  runtime->spawn("where", where_work_runs(runtime.get(), &threads));
  runtime->run();
  EXPECT_EQ(result, 42);
  const std::thread::id here = std::this_thread::get_id();
  ASSERT_EQ(threads.size(), 4u);
  EXPECT_NE(threads[0], here);
  EXPECT_EQ(threads, (std::vector<std::thread::id>{threads[0], threads[0], threads[0], here}));
}

Task<> offload_error(Runtime* runtime) {
  auto work = [] { fail(ErrorKind::data, "bad record"); };
  co_await runtime->offload(Duration(0), work);
}

TEST(Runtime, OffloadedErrorsArriveInBothTimes) {
  for (auto make : {real_runtime, virtual_runtime}) {
    auto runtime = make(0);
    runtime->spawn("compute", offload_error(runtime.get()));
    EXPECT_THROW(runtime->run(), Error);
  }
}

TEST(Runtime, ErrorsOfTimersAndPostedCallsEndTheRun) {
  for (auto make : {real_runtime, virtual_runtime}) {
    for (const bool posted : {false, true}) {
      auto runtime = make(0);
      Event never(*runtime);
      auto work = [&never]() -> Task<> { co_await never.wait(); };
      runtime->spawn("waits", work());
      auto bad = [] { fail(ErrorKind::io, "disk full"); };
      if (posted) {
        asio::post(runtime->context(), bad);
      } else {
        runtime->call_at(runtime->now(), bad);
      }
      EXPECT_THROW(runtime->run(), Error);
    }
  }
}

Task<> wait_for(Event* event) { co_await event->wait(); }

TEST(VirtualRuntime, StandingStillIsAnErrorThatNamesTheTask) {
  auto runtime = virtual_runtime(0);
  Event never(*runtime);
  runtime->spawn("the task of rank 3", wait_for(&never));
  runtime->explain_stall([] { return std::string("rank 3 waits for the moon"); });
  try {
    runtime->run();
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 3 waits for the moon"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("the task of rank 3"), std::string::npos) << error.what();
  }
}

Task<> fail_after(Runtime* runtime, Duration d, const char* what) {
  co_await runtime->sleep(d);
  fail(ErrorKind::peer, what);
}

Task<> run_both(Runtime* runtime, Event* event, std::string* caught) {
  Task<> a = fail_after(runtime, Duration(5), "the cause");
  Task<> b = wait_for(event);
  auto on_error = [event](std::exception_ptr) {
    event->fail(std::make_exception_ptr(Error(ErrorKind::peer, "the consequence")));
  };
  Task<> together = both(*runtime, std::move(a), std::move(b), on_error);
  try {
    co_await std::move(together);
  } catch (const Error& error) {
    *caught = error.what();
  }
}

TEST(Both, ThrowsTheCauseAndEndsTheOther) {
  auto runtime = virtual_runtime(0);
  Event event(*runtime);
  std::string caught;
  runtime->spawn("both", run_both(runtime.get(), &event, &caught));
  runtime->run();
  EXPECT_EQ(caught, "the cause");
}

Task<> locked(Runtime* runtime, Mutex* mutex, int id, std::vector<int>* log) {
  auto lock = co_await mutex->lock();
  log->push_back(id);
  co_await runtime->sleep(Duration(10));
  log->push_back(id);
}

TEST(Mutex, LetsOneInAtATimeInOrder) {
  auto runtime = virtual_runtime(0);
  Mutex mutex(*runtime);
  std::vector<int> log;
  for (int id = 0; id < 3; ++id) runtime->spawn("locked", locked(runtime.get(), &mutex, id, &log));
  runtime->run();
  EXPECT_EQ(log, (std::vector<int>{0, 0, 1, 1, 2, 2}));
}

Task<> produce(Runtime* runtime, Queue<int>* queue) {
  for (int i = 0; i < 3; ++i) {
    co_await runtime->sleep(Duration(10));
    queue->push(i);
  }
}

Task<> consume(Queue<int>* queue, std::vector<int>* log) {
  for (int i = 0; i < 3; ++i) log->push_back(co_await queue->pop());
}

TEST(Queue, HandsOverInOrder) {
  auto runtime = virtual_runtime(0);
  Queue<int> queue(*runtime);
  std::vector<int> log;
  runtime->spawn("consumer", consume(&queue, &log));
  runtime->spawn("producer", produce(runtime.get(), &queue));
  runtime->run();
  EXPECT_EQ(log, (std::vector<int>{0, 1, 2}));
}

TEST(Random, IsTheSameEverywhere) {
  Random random(7, 3);
  const std::uint64_t first = random.next();
  EXPECT_EQ(first, Random(7, 3).next());
  EXPECT_NE(first, Random(7, 4).next());
  EXPECT_NE(first, Random(8, 3).next());
  const auto order = Random(1).permutation(1000);
  std::vector<bool> seen(1000);
  for (const auto i : order) seen[i] = true;
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 1000);
}

}  // namespace
}  // namespace ripieno
