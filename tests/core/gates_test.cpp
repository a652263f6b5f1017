#include "ripieno/core/gates.h"

#include <gtest/gtest.h>

namespace ripieno {
namespace {

Task<> pass(Runtime* runtime, Gates* gates, std::size_t gate, std::vector<std::int64_t>* log) {
  co_await gates->passed(gate);
  log->push_back(runtime->now().count());
}

struct Site {
  std::unique_ptr<Runtime> runtime = virtual_runtime(0);
  Gates gates{*runtime, 3};
  std::vector<std::int64_t> log;  // when those who wait at gate 1 went through

  void at(std::int64_t when, void (*act)(Gates&)) {
    runtime->call_at(Duration(when), [this, act] { act(gates); });
  }
  void wait_twice() {
    for (int i = 0; i < 2; ++i) runtime->spawn("waits", pass(runtime.get(), &gates, 1, &log));
    runtime->run();
  }
};

TEST(Gates, AreOpenAtFirstAndApartFromEachOther) {
  Site site;
  EXPECT_EQ(site.gates.size(), 3u);
  EXPECT_FALSE(site.gates.any_closed());
  site.gates.close(0);
  EXPECT_TRUE(site.gates.any_closed());
  site.wait_twice();
  EXPECT_EQ(site.log, (std::vector<std::int64_t>{0, 0}));
}

TEST(Gates, LetAllThroughOnceTheyOpen) {
  Site site;
  site.gates.close(1);
  site.gates.close(1);
  site.at(10, [](Gates& gates) { gates.open(0); });
  site.at(20, [](Gates& gates) { gates.open(1); });
  site.wait_twice();
  EXPECT_EQ(site.log, (std::vector<std::int64_t>{20, 20}));
  EXPECT_FALSE(site.gates.any_closed());
}

TEST(Gates, AreLookedAtAgainWhereTheyCloseBeforeAnybodyIsThrough) {
  Site site;
  site.gates.close(1);
  site.at(10, [](Gates& gates) {
    gates.open(1);
    gates.close(1);
  });
  site.at(30, [](Gates& gates) { gates.open(1); });
  site.wait_twice();
  EXPECT_EQ(site.log, (std::vector<std::int64_t>{30, 30}));
}

TEST(Gates, GivenUpTheyStayOpen) {
  Site site;
  site.gates.close(1);
  site.gates.close(2);
  site.at(10, [](Gates& gates) {
    gates.give_up();
    gates.close(1);
  });
  site.wait_twice();
  EXPECT_EQ(site.log, (std::vector<std::int64_t>{10, 10}));
  EXPECT_FALSE(site.gates.any_closed());
}

Task<> block(Runtime* runtime, Gates* gates, std::vector<std::string>* log) {
  auto wait = [gates] { gates->wait(1); };
  co_await runtime->offload(Duration(0), wait);
  log->push_back("through");
}

Task<> open_later(Runtime* runtime, Gates* gates, std::vector<std::string>* log) {
  co_await runtime->sleep(std::chrono::milliseconds(20));
  log->push_back("open");
  gates->open(1);
}

TEST(Gates, BlockAnotherThread) {
  auto runtime = real_runtime(0);
  Gates gates(*runtime, 3);
  std::vector<std::string> log;
  gates.close(1);
  runtime->spawn("block", block(runtime.get(), &gates, &log));
  runtime->spawn("open", open_later(runtime.get(), &gates, &log));
  runtime->run();
  EXPECT_EQ(log, (std::vector<std::string>{"open", "through"}));
}

}  // namespace
}  // namespace ripieno
