#include "ripieno/launch/memory_killer.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace ripieno::launch {
namespace {

void write(const std::filesystem::path& file, const std::string& content) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << content;
}

TEST(MemoryKiller, IsAskedInTheControlGroup) {
  const TemporaryFolder folder;
  const auto proc = folder.path() / "proc", groups = folder.path() / "groups";
  EXPECT_EQ(memory_kills(proc, groups), std::nullopt) << "a system that counts nothing";
  write(proc / "vmstat", "pgfault 12\noom_kill 7\n");
  EXPECT_EQ(memory_kills(proc, groups), 7u) << "of the machine";
  write(proc / "self/cgroup", "4:cpu,memory:/a/b\n");
  write(groups / "memory/a/b/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  EXPECT_EQ(memory_kills(proc, groups), 3u) << "of version 1";
  write(proc / "self/cgroup", "0::/c\n");
  write(groups / "c/memory.events", "low 0\noom 5\noom_kill 2\noom_group_kill 0\n");
  EXPECT_EQ(memory_kills(proc, groups), 2u) << "of version 2";
}

TEST(MemoryKiller, IsNamedIfItHasEndedAProcess) {
  EXPECT_EQ(memory_hint(2, 2, 1'000'000'000), "") << "somebody else has sent the signal";
  EXPECT_EQ(memory_hint(std::nullopt, std::nullopt, 0), "");
  EXPECT_EQ(memory_hint(std::nullopt, std::nullopt, 3'210'000'000), " (it had 3.21 GB of memory at most)");
  const std::string hint = memory_hint(2, 3, 3'210'000'000);
  EXPECT_NE(hint.find("memory killer, it seems, which has ended 1 process meanwhile: it had 3.21 GB of memory at most"),
            std::string::npos)
      << hint;
}

}  // namespace
}  // namespace ripieno::launch
