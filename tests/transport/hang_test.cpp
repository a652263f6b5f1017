// Who is blamed where a rank hangs: the rank at which the waiting ends, whichever watchdog fires first.
#include <gtest/gtest.h>

#include <latch>

#include "ripieno/transport/inquiry.h"
#include "tests/transport/ranks.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;
using std::chrono::milliseconds;

class Hangs : public ::testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(By, Hangs, ::testing::ValuesIn(every_way), way_of);

SharedOptions patient_for(Duration timeout) {
  SharedOptions options;
  options.link.timeout = timeout;
  return options;
}

Task<> receives(Endpoint* e, int from, Duration after) {
  co_await e->runtime().sleep(after);
  std::vector<float> in(10);
  co_await e->receive(from, message(10), bytes(in));
}

/// A rank that begins to wait for another after so long, and gets an error; then counts down.
Body waits_for(int from, Duration after, std::latch* over) {
  return [=](Endpoint* e) -> Task<> {
    Task<> receiving = receives(e, from, after);
    const std::exception_ptr error = co_await error_of(std::move(receiving));
    over->count_down();
    if (!error) co_return;
    e->abort(0, everyone(e), error);  // as a communicator does
    std::rethrow_exception(error);
  };
}

/// A rank whose runtime nobody drives until then.
Body stands_still(std::latch* over) {
  return [=](Endpoint*) -> Task<> {
    over->wait();
    co_return;
  };
}

TEST_P(Hangs, TheEndOfTheChainIsBlamedByAll) {
  std::latch over(3);
  // The first watchdog is rank 0's, whose peer is as innocent as itself.
  const auto outcomes = run_ranks(GetParam(),
                                  {waits_for(1, milliseconds(0), &over), waits_for(2, milliseconds(40), &over),
                                   waits_for(3, milliseconds(80), &over), stands_still(&over)},
                                  patient_for(milliseconds(100)));
  const std::string gave_up =
      "gave up on rank 3 after 0.1 s of waiting for test of 10 fp32 on exchange channel 0: rank 0 waits for 1, 1 for "
      "2, 2 for 3, 3 does not answer";
  EXPECT_EQ(outcomes[0].error, "rank 0: " + gave_up);
  EXPECT_EQ(outcomes[0].kind, ErrorKind::peer);
  for (const int rank : {1, 2}) {
    const std::string& error = outcomes[static_cast<std::size_t>(rank)].error;
    EXPECT_NE(error.find("gave up on rank 3 after"), std::string::npos) << error;
  }
}

TEST_P(Hangs, ARankThatAnswersAndWaitsForNobodyIsBlamedToo) {
  std::latch over(2);
  auto is_busy = [&over](Endpoint* e) -> Task<> {
    while (!over.try_wait()) co_await e->runtime().sleep(milliseconds(1));
  };
  const auto outcomes =
      run_ranks(GetParam(), {waits_for(1, milliseconds(0), &over), waits_for(2, milliseconds(60), &over), is_busy},
                patient_for(milliseconds(100)));
  EXPECT_EQ(outcomes[0].error,
            "rank 0: gave up on rank 2 after 0.1 s of waiting for test of 10 fp32 on exchange channel 0: rank 0 waits "
            "for 1, 1 for 2, 2 for nobody: busy, or stuck, outside of exchanges");
}

TEST_P(Hangs, RanksThatWaitForEachOtherAreNamedWithoutBlame) {
  std::latch over(2);
  const auto outcomes =
      run_ranks(GetParam(), {waits_for(1, milliseconds(0), &over), waits_for(0, milliseconds(50), &over)},
                patient_for(milliseconds(100)));
  EXPECT_EQ(outcomes[0].error,
            "rank 0: gave up after 0.1 s of waiting for test of 10 fp32 on exchange channel 0: they wait for each "
            "other: rank 0 waits for 1, 1 for 0");
}

TEST_P(Hangs, WhatComesWhileOthersAreAskedIsTaken) {
  std::latch asked(1);
  auto waits = [&](Endpoint* e) -> Task<> {
    const Duration within_the_grace = e->runtime().now() + milliseconds(1100);
    e->runtime().call_at(within_the_grace, [&] { asked.count_down(); });
    Task<> receiving = receives(e, 1, Duration(0));
    co_await std::move(receiving);
  };
  auto sends = [&](Endpoint* e) -> Task<> {
    asked.wait();
    std::vector<float> out(10);
    co_await e->send(0, message(10), const_bytes(out));
  };
  expect_no_errors(run_ranks(GetParam(), {waits, sends}, patient_for(std::chrono::seconds(1))));
}

TEST(HangsInAnAllReduce, TheRankThatKeepsAnotherFromItIsBlamed) {
  std::latch over(2);
  auto reduces = [&](Endpoint* e) -> Task<> {
    std::vector<float> values(100);
    Task<> reducing = e->run_engine(Collective::all_reduce, message(100, 0, "two-phase"), NumberSpan(values));
    const std::exception_ptr error = co_await error_of(std::move(reducing));
    over.count_down();
    if (error) std::rethrow_exception(error);
  };
  const auto outcomes = run_ranks(Way::shared, {reduces, waits_for(2, milliseconds(60), &over), stands_still(&over)},
                                  patient_for(milliseconds(100)));
  EXPECT_EQ(outcomes[0].error,
            "rank 0: gave up on rank 2 after 0.1 s of waiting for two-phase of 100 fp32 on exchange channel 0: rank 0 "
            "waits for 2, 2 does not answer");
  EXPECT_NE(outcomes[1].error.find("gave up on rank 2"), std::string::npos) << outcomes[1].error;
}

/// An inquiry of rank 0 of three, and what it tells.
struct OfThree {
  std::unique_ptr<Runtime> runtime = virtual_runtime(0);
  std::vector<std::string> told;
  std::vector<int> awaited{1};
  std::shared_ptr<Inquiry> inquiry = std::make_shared<Inquiry>(
      *runtime, 0, 3,
      Inquiry::Ways{[this](int peer, const std::string& note) { told.push_back(text(peer, " ", note)); },
                    [this] { return awaited; }});
  std::vector<std::string> found;

  void ask() {
    inquiry->ask(std::chrono::seconds(30), [this](const Hang& hang) { found.push_back(hang.known); });
  }
  void run(Duration time) {
    auto wait = [](Runtime* runtime, Duration time) -> Task<> { co_await runtime->sleep(time); };
    runtime->spawn("wait", wait(runtime.get(), time));
    runtime->run();
  }
};

TEST(Inquiry, AsksAllOnceAndConcludesAtTheEndOfTheGrace) {
  OfThree of;
  of.ask();
  of.ask();
  EXPECT_EQ(of.told, (std::vector<std::string>{"1 ? 1", "2 ? 1"}));
  of.inquiry->hear(1, "! 2");
  of.run(milliseconds(999));
  EXPECT_TRUE(of.found.empty());
  of.run(milliseconds(2));
  const std::string known = "rank 0 waits for 1, 1 for 2, 2 does not answer";
  EXPECT_EQ(of.found, (std::vector<std::string>{known, known}));
}

TEST(Inquiry, WhereSeveralDoNotAnswerTheyGetMoreTime) {
  OfThree of;
  of.awaited = {1, 2};
  of.ask();
  of.run(milliseconds(2500));
  EXPECT_TRUE(of.found.empty());
  of.inquiry->hear(2, "! 1");  // it was busy
  of.run(milliseconds(501));
  EXPECT_EQ(of.found, std::vector<std::string>{"rank 0 waits for 1, 1 does not answer"});
}

TEST(Inquiry, ConcludesOnceAllHaveAnswered) {
  OfThree of;
  of.ask();
  of.inquiry->hear(2, "!");
  of.inquiry->hear(1, "! 2");
  of.run(milliseconds(1));
  EXPECT_EQ(of.found, std::vector<std::string>{
                          "rank 0 waits for 1, 1 for 2, 2 for nobody: busy, or stuck, outside of exchanges"});
  of.ask();  // anew: what they have said is still of use
  of.run(milliseconds(1001));
  EXPECT_EQ(of.found.size(), 2u);
}

TEST(Inquiry, WhoIsAskedTellsAllButNotForEveryQuestion) {
  OfThree of;
  of.awaited = {2};
  of.inquiry->hear(1, "? 0");
  EXPECT_EQ(of.told, (std::vector<std::string>{"1 ! 2", "2 ! 2"}));
  of.inquiry->hear(2, "? 1");
  EXPECT_EQ(of.told.size(), 3u);
  EXPECT_EQ(of.told.back(), "2 ! 2");
}

TEST(Inquiry, NotesMayBeAnything) {
  OfThree of;
  of.ask();
  for (const std::string& note : {std::string(), std::string("?"), std::string("! 99999999999999999999"),
                                  std::string("! -1 7 x"), std::string(5000, '9'), std::string("\0\1\2", 3)})
    of.inquiry->hear(1, note);
  of.run(std::chrono::seconds(2));
  EXPECT_EQ(of.found.size(), 1u);
}

}  // namespace
}  // namespace ripieno::transport
