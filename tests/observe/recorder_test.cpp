#include "ripieno/observe/recorder.h"
#include "tests/support/temporary_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

namespace ripieno::observe {
namespace {

TEST(Recorder, AnErrorEndsTheTrace) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "trace.json";
  const auto runtime = virtual_runtime(0);
  {
    Recorder recorder(*runtime, nullptr, nullptr);
    recorder.trace_to(std::make_unique<LineFile>(path), {.rank = 3});
    recorder.exposed(from_seconds(1), from_seconds(1));  // nothing was waited for
    recorder.exposed(from_seconds(1), from_seconds(1.5));
    recorder.failed("rank 2 is gone");
  }
  const auto events = nlohmann::json::parse(read_file(path));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1]["name"], "exposed 0");
  EXPECT_EQ(events[1]["dur"], 5e5);
  EXPECT_EQ(events[2]["name"], "error: rank 2 is gone");
  EXPECT_EQ(events[2]["ph"], "i");
  EXPECT_EQ(events[2]["pid"], 3);
}

/// A trace's lines are written from destructors and callbacks, which cannot throw.
TEST(Recorder, ATraceOnAFullDiskEndsTheTraining) {
  const auto runtime = virtual_runtime(0);
  Recorder recorder(*runtime, nullptr, nullptr);
  recorder.trace_to(std::make_unique<LineFile>("/dev/full"), {});
  for (std::size_t i = 0; i < 2000; ++i) StageTimer(recorder, *runtime, Stage::forward, i);
  try {
    recorder.step({});
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "/dev/full: cannot write: No space left on device");
  }
  recorder.failed("the cause is not hidden by the trace");
}

/// What two ranks' traces hold of the messages that both tell of.
class TracedMessages : public ::testing::Test {
 protected:
  TracedMessages() {
    for (int rank = 0; rank < 2; ++rank) {
      recorders[rank] = std::make_unique<Recorder>(*runtime, nullptr, nullptr);
      recorders[rank]->trace_to(std::make_unique<LineFile>(path(rank)),
                                {.rank = rank, .ranks = 2, .clock_error = from_seconds(2e-6)});
    }
  }
  std::filesystem::path path(int rank) const { return folder.path() / text("trace-", rank, ".json"); }
  /// Rank `from` sends a message that is under way from `begin` to `end`, in seconds.
  void carry(int from, std::uint32_t channel, std::uint64_t sequence, double begin, double end) {
    recorders[from]->message(
        {"send", 1 - from, Purpose::exchange, channel, "ring", 8, sequence, from_seconds(begin), from_seconds(end)});
    recorders[1 - from]->message(
        {"receive", from, Purpose::exchange, channel, "ring", 8, sequence, from_seconds(begin), from_seconds(end)});
  }
  /// Of both ranks.
  std::vector<nlohmann::json> events() {
    std::vector<nlohmann::json> all;
    for (int rank = 0; rank < 2; ++rank) {
      recorders[rank]->end();
      for (const auto& event : nlohmann::json::parse(read_file(path(rank)))) all.push_back(event);
    }
    return all;
  }

  const TemporaryFolder folder;
  std::unique_ptr<Runtime> runtime = virtual_runtime(0);
  std::unique_ptr<Recorder> recorders[2];
};

/// Each id stands once where an arrow starts and once where it ends, and each such point is within its message's bar.
TEST_F(TracedMessages, HaveArrowsOfTheSameIdOnBothSides) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    carry(0, 0, i, 1 + 0.1 * static_cast<double>(i), 1.5);  // side by side
    carry(1, 0, i, 1, 1);                                   // in no time
    carry(0, 7, i, 2, 3);
  }
  const auto all = events();
  std::map<std::string, nlohmann::json> starts, ends;
  for (const auto& event : all) {
    if (event["ph"] != "s" && event["ph"] != "f") continue;
    EXPECT_TRUE((event["ph"] == "s" ? starts : ends).emplace(event["id"], event).second) << "twice: " << event;
    int around = 0;
    for (const auto& bar : all) {
      if (bar["ph"] != "X" || bar["pid"] != event["pid"] || bar["tid"] != event["tid"]) continue;
      around += bar["ts"] <= event["ts"] && event["ts"] < bar["ts"].get<double>() + bar["dur"].get<double>();
    }
    EXPECT_EQ(around, 1) << event;
  }
  ASSERT_EQ(starts.size(), 9u);
  ASSERT_EQ(ends.size(), 9u);
  for (const auto& [id, start] : starts) {
    ASSERT_TRUE(ends.contains(id)) << start;
    EXPECT_EQ(ends[id]["pid"].get<int>(), 1 - start["pid"].get<int>());
    EXPECT_GT(ends[id]["ts"], start["ts"]);
    EXPECT_EQ(ends[id]["bp"], "e");
  }
}

/// An all-reduce in shared memory is no message: every rank's numbers go to every other.
TEST_F(TracedMessages, OfAnAllReduceHaveArrowsBothWays) {
  for (int rank = 0; rank < 2; ++rank)
    recorders[rank]->message(
        {"all-reduce", -1, Purpose::exchange, 0, "two-phase", 8, 0, from_seconds(1), from_seconds(2)});
  carry(0, 0, 0, 3, 4);  // of the same channel and number
  std::map<std::string, int> ends;
  for (const auto& event : events()) {
    if (event["ph"] == "s") ends[event["id"]] += 1;
    if (event["ph"] == "f") ends[event["id"]] += 10;
  }
  EXPECT_EQ(ends.size(), 3u);
  for (const auto& [id, count] : ends) EXPECT_EQ(count, 11) << id;
}

/// Two epochs of three steps of 10 samples: the first step takes 5 s, each other 1 s, an evaluation 7 s.
double rate_without(std::uint64_t left_out) {
  const auto runtime = virtual_runtime(0);
  Recorder recorder(*runtime, nullptr, nullptr);
  recorder.leave_out(left_out);
  const auto train = [](Runtime* time, Recorder* told) -> Task<> {
    co_await time->sleep(from_seconds(100));
    told->begin();
    for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
      for (std::uint64_t step = 0; step < 3; ++step) {
        co_await time->sleep(from_seconds(epoch + step == 0 ? 5 : 1));
        told->step({.epoch = epoch, .step = 3 * epoch + step, .samples = 10});
      }
      {
        const StageTimer timer(*told, *time, Stage::evaluate);
        co_await time->sleep(from_seconds(7));
      }
      told->epoch({.epoch = epoch});
    }
  };
  runtime->spawn("training", train(runtime.get(), &recorder));
  runtime->run();
  return recorder.rate();
}

TEST(Recorder, RatesLeaveOutTheFirstSteps) {
  EXPECT_DOUBLE_EQ(rate_without(0), 6.0);  // 60 samples in 10 s
  EXPECT_DOUBLE_EQ(rate_without(1), 10.0);
  EXPECT_DOUBLE_EQ(rate_without(3), 10.0);
  EXPECT_DOUBLE_EQ(rate_without(5), 10.0);
  EXPECT_EQ(rate_without(6), 0) << "no step remains";
  EXPECT_EQ(rate_without(7), 0);
}

TEST(Recorder, StepsAndWhatIsOptimisedAreTraced) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "trace.json";
  const auto runtime = virtual_runtime(0);
  Recorder recorder(*runtime, nullptr, nullptr);
  recorder.trace_to(std::make_unique<LineFile>(path),
                    {.rank = 1, .ahead = from_seconds(10), .clock_error = from_seconds(3e-6)});
  const auto train = [](Runtime* time, Recorder* told) -> Task<> {
    told->begin();
    {
      const StageTimer timer(*told, *time, Stage::optimise);
      co_await time->sleep(from_seconds(1));
    }
    told->step({.step = 4});
  };
  runtime->spawn("training", train(runtime.get(), &recorder));
  runtime->run();
  recorder.end();
  const auto events = nlohmann::json::parse(read_file(path));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["args"]["clock_error_us"], 3);
  EXPECT_EQ(events[1]["name"], "optimise 0");
  EXPECT_EQ(events[2]["name"], "step 4");
  EXPECT_EQ(events[2]["ts"], 1e7);
  EXPECT_EQ(events[2]["dur"], 1e6);
}

}  // namespace
}  // namespace ripieno::observe
