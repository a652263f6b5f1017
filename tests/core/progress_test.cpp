// Which thread moves work on, and that none is lost, whoever submits and whoever waits.
#include "ripieno/core/progress.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "ripieno/core/error.h"

namespace ripieno {
namespace {

Task<> note_thread(Runtime* runtime, std::thread::id* where) {
  co_await runtime->sleep(Duration(1'000'000));  // 1 us
  *where = std::this_thread::get_id();
}

Task<> wait_for(Runtime* runtime, const std::atomic<bool>* open) {
  while (!open->load()) co_await runtime->sleep(from_seconds(1e-4));
}

Task<> fail_later(Runtime* runtime) {
  co_await runtime->sleep(Duration(1'000'000));
  fail(ErrorKind::peer, "no luck");
}

Task<> append(std::vector<int>* to, int number) {
  to->push_back(number);
  co_return;
}

TEST(Progress, WhoWaitsAtOnceDrives) {
  const auto runtime = real_runtime(0);
  Progress progress(*runtime);
  std::thread::id where;
  progress.run("note", note_thread(runtime.get(), &where));
  EXPECT_EQ(where, std::this_thread::get_id());
}

Task<> begin_and_note(Runtime* runtime, std::thread::id* first, std::thread::id* last) {
  *first = std::this_thread::get_id();
  co_await note_thread(runtime, last);
}

TEST(Progress, ATaskRunsWhollyOnTheThreadThatWantsItHereWhileOthersRunBeside) {
  const auto runtime = real_runtime(0);
  Progress progress(*runtime);
  std::atomic<bool> open = false;
  const Work beside = progress.submit("beside", wait_for(runtime.get(), &open));
  for (int i = 0; i < 200; ++i) {
    std::thread::id first, last;
    progress.run_here("note", begin_and_note(runtime.get(), &first, &last));
    EXPECT_EQ(first, std::this_thread::get_id());
    EXPECT_EQ(last, std::this_thread::get_id());
  }
  EXPECT_THROW(progress.run_here("bad", fail_later(runtime.get())), Error);
  open = true;
  while (!beside.test()) std::this_thread::yield();  // the library's thread drives again
}

TEST(Progress, WorkGoesOnBesideTheCaller) {
  const auto runtime = real_runtime(0);
  Progress progress(*runtime);
  std::thread::id where;
  const Work work = progress.submit("note", note_thread(runtime.get(), &where));
  while (!work.test()) std::this_thread::yield();  // never drives
  EXPECT_NE(where, std::this_thread::get_id());
  EXPECT_NO_THROW(work.wait());
  EXPECT_FALSE(work.error());
}

TEST(Progress, AnErrorIsTheWorksOwn) {
  const auto runtime = real_runtime(0);
  Progress progress(*runtime);
  std::thread::id where;
  const Work bad = progress.submit("bad", fail_later(runtime.get())),
             good = progress.submit("good", note_thread(runtime.get(), &where));
  EXPECT_NO_THROW(good.wait());
  for (int again = 0; again < 2; ++again) EXPECT_THROW(bad.wait(), Error);
  EXPECT_TRUE(bad.test());
  EXPECT_TRUE(bad.error());
  EXPECT_THROW(progress.run("bad", fail_later(runtime.get())), Error);
  EXPECT_NO_THROW(progress.run("good", note_thread(runtime.get(), &where)));
}

TEST(Progress, AnErrorThatNobodyWaitsForIsTold) {
  ::testing::internal::CaptureStderr();
  {
    const auto runtime = real_runtime(0);
    Progress progress(*runtime);
    std::thread::id where;
    for (int i = 0; i < 3; ++i) progress.submit("bad", fail_later(runtime.get()));
    progress.run("last", note_thread(runtime.get(), &where));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "ripieno: bad failed, and nobody waited for it: no luck\n");
}

TEST(Progress, AnErrorThatSomebodyGotIsNotToldAgain) {
  const auto runtime = real_runtime(0);
  Progress progress(*runtime);
  ::testing::internal::CaptureStderr();
  {
    const Work first = progress.submit("bad", fail_later(runtime.get())),
               second = progress.submit("bad", fail_later(runtime.get()));
    EXPECT_THROW(first.wait(), Error);
    while (!second.test()) std::this_thread::yield();
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, WhoWaitsForOneNeedNotWaitForAnother) {
  const auto runtime = real_runtime(0);
  Progress progress(*runtime);
  std::atomic<bool> open{false};
  std::thread::id where;
  const Work held = progress.submit("held", wait_for(runtime.get(), &open));
  std::thread other([&] { held.wait(); });  // drives, or is about to
  progress.run("quick", note_thread(runtime.get(), &where));
  EXPECT_FALSE(held.test());
  open = true;
  other.join();
  EXPECT_TRUE(held.test());
}

TEST(Progress, TasksBeginInTheOrderOfTheirSubmission) {
  const auto runtime = real_runtime(0);
  Progress progress(*runtime);
  std::vector<int> order, expected;
  Work last;
  for (int i = 0; i < 100; ++i) {
    expected.push_back(i);
    if (i % 7 == 3) {
      progress.run("in turn", append(&order, i));
    } else {
      last = progress.submit("in turn", append(&order, i));
    }
  }
  last.wait();
  EXPECT_EQ(order, expected);
}

Task<> count(Runtime* runtime, std::atomic<int>* counted, int pause) {
  if (pause > 0) co_await runtime->sleep(Duration(pause * 1'000'000));
  ++*counted;
}

TEST(Progress, EightThreadsSubmitAndWait) {
  constexpr int threads = 8, each = 250;
  const auto runtime = real_runtime(0);
  Progress progress(*runtime);
  std::atomic<int> counted{0};
  std::vector<std::thread> submitting;
  for (int t = 0; t < threads; ++t) {
    submitting.emplace_back([&, t] {
      std::vector<Work> kept;
      for (int i = 0; i < each; ++i) {
        auto task = count(runtime.get(), &counted, (i + t) % 5);
        if (i % 3 == 0) {
          progress.run("counted", std::move(task));
        } else {
          kept.push_back(progress.submit("counted", std::move(task)));
        }
        if (i % 16 == 0 && !kept.empty()) kept.back().wait();
      }
      for (auto work = kept.rbegin(); work != kept.rend(); ++work) work->wait();
    });
  }
  for (std::thread& one : submitting) one.join();
  EXPECT_EQ(counted, threads * each);
}

TEST(Progress, WorkWhoseProgressIsGoneIsSaidToBe) {
  const auto runtime = real_runtime(0);
  const std::atomic<bool> closed{false};
  Work left;
  EXPECT_THROW(left.wait(), Error);
  {
    Progress progress(*runtime);
    left = progress.submit("held", wait_for(runtime.get(), &closed));
  }
  EXPECT_FALSE(left.test());
  EXPECT_THROW(left.wait(), Error);
}

TEST(Progress, InVirtualTimeAllIsInLine) {
  const auto runtime = virtual_runtime(0);
  Progress progress(*runtime);
  std::vector<std::thread::id> where(3);
  std::vector<Work> all;
  for (std::thread::id& one : where) all.push_back(progress.submit("note", note_thread(runtime.get(), &one)));
  EXPECT_FALSE(all.back().test()) << "nobody has driven it yet";
  all.back().wait();
  for (const std::thread::id& one : where) EXPECT_EQ(one, std::this_thread::get_id());
  EXPECT_EQ(runtime->now(), Duration(1'000'000));
  EXPECT_THROW(progress.run("bad", fail_later(runtime.get())), Error);
}

}  // namespace
}  // namespace ripieno
