#include "ripieno/launch/control.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "ripieno/core/error.h"

namespace ripieno::launch {
namespace {

std::string read_all(int fd) {
  std::string all;
  char chunk[4096];
  for (ssize_t got; (got = read(fd, chunk, sizeof chunk)) > 0;) all.append(chunk, got);
  return all;
}

TEST(Control, SendsLines) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    Control control(ends[1]);
    control.send({{"type", "epoch"}, {"text", "a\nb \xff"}});  // not UTF-8: replaced, not thrown
    control.failed(Error(ErrorKind::data, "why"));
  }
  const std::string all = read_all(ends[0]);
  close(ends[0]);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 2);
  const std::string second = all.substr(all.find('\n') + 1);
  EXPECT_EQ(nlohmann::json::parse(second),
            (nlohmann::json{{"type", "failed"}, {"kind", "data"}, {"message", "why"}, {"loss", nullptr}}));
}

TEST(Control, NobodyListening) {
  Control none(-1);
  none.send({{"type", "epoch"}});
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  Control gone(ends[1]);
  for (int i = 0; i < 3; ++i) gone.send({{"type", "epoch"}});  // SIGPIPE would end this process
  EXPECT_THROW(Control(987), Error);
}

TEST(Control, AListenerThatDoesNotReadGetsWholeMessagesOrNone) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string big(50'000, 'x');
  {
    Control control(ends[1]);
    for (int i = 0; i < 3; ++i) control.send({{"text", big}});  // more than the pipe takes
    // Now it reads a little: the message that was cut is completed, and the next goes through.
    std::string first(60'000, ' ');
    ASSERT_EQ(read(ends[0], first.data(), first.size()), 60'000);
    control.send({{"last", true}});
    const std::string expected = nlohmann::json{{"text", big}}.dump() + "\n";
    EXPECT_EQ(first, (expected + expected).substr(0, 60'000));
  }
  std::string rest = read_all(ends[0]);
  close(ends[0]);
  EXPECT_EQ(rest.substr(rest.size() - 14), "{\"last\":true}\n");
}

TEST(Control, AResultWaitsForAListenerThatDoesNotReadYet) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string big(50'000, 'x');
  std::atomic<bool> delivered = false;
  std::thread worker([&] {
    Control control(ends[1]);
    for (int i = 0; i < 3; ++i) control.send({{"text", big}});  // more than the pipe takes
    control.deliver({{"result", big}});
    delivered = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // as if the launcher was stopped
  EXPECT_FALSE(delivered);
  const std::string all = read_all(ends[0]);
  worker.join();
  close(ends[0]);
  const std::string result = nlohmann::json{{"result", big}}.dump() + "\n";
  ASSERT_GT(all.size(), result.size());
  EXPECT_EQ(all.substr(all.size() - result.size()), result);
}

}  // namespace
}  // namespace ripieno::launch
