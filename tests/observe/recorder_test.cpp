#include "ripieno/observe/recorder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

namespace ripieno {
namespace {

TEST(Recorder, AnErrorEndsTheTrace) {
  const auto path = std::filesystem::path(testing::TempDir()) / "ripieno_recorder_test.json";
  std::filesystem::remove(path);
  const auto runtime = virtual_runtime(0);
  {
    Recorder recorder(*runtime, nullptr, nullptr);
    recorder.trace_to(std::make_unique<LineFile>(path), 3);
    recorder.exposed(from_seconds(1), from_seconds(1));  // nothing was waited for
    recorder.exposed(from_seconds(1), from_seconds(1.5));
    recorder.failed("rank 2 is gone");
  }
  const auto events = nlohmann::json::parse(read_file(path));
  std::filesystem::remove(path);
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
  recorder.trace_to(std::make_unique<LineFile>("/dev/full"), 0);
  for (std::size_t i = 0; i < 2000; ++i) StageTimer(recorder, *runtime, Stage::forward, i);
  try {
    recorder.step({});
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "/dev/full: cannot write: No space left on device");
  }
  recorder.failed("the cause is not hidden by the trace");
}

}  // namespace
}  // namespace ripieno
