#include "ripieno/core/file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fcntl.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "ripieno/core/error.h"
#include "tests/support/temporary_folder.h"

namespace ripieno {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_)) all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

using Names = std::vector<std::string>;

/// That `act` throws Error(io) with this part.
template <class Act>
void expect_io(const std::string& part, Act act) {
  try {
    act();
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

/// As long as it lives no file may grow beyond so many bytes: a full disk, for any user.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  sighandler_t handler_;
};

TEST_F(Files, AFullDiskIsAnErrorAndLeavesTheOldFile) {
  const fs::path file = folder_ / "a.txt";
  write_file(file, "old");
  {
    const FullDisk disk(1000);
    expect_io(file.string() + ": cannot write: ", [&] { write_file(file, std::string(5000, 'x')); });
    expect_io("b.txt: cannot write: ", [&] { write_file(folder_ / "b.txt", std::string(5000, 'x')); });
  }
  EXPECT_EQ(read_file(file), "old");
  EXPECT_EQ(names(), Names{"a.txt"});
  write_file(file, "new");
  EXPECT_EQ(read_file(file), "new");
  EXPECT_EQ(names(), Names{"a.txt"});
}

TEST_F(Files, AWriterThatIsKilledLeavesNothing) {
  write_file(folder_ / "state-1.pt", "old");
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    ::signal(SIGXFSZ, SIG_DFL);
    const rlimit limit{1000, RLIM_INFINITY}, no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    write_file(folder_ / "state-1.pt", std::string(5000, 'x'));  // the limit kills it within
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFSIGNALED(status));
  remove_unfinished(folder_);  // of a file system that knows no files without a name
  EXPECT_EQ(names(), Names{"state-1.pt"});
  EXPECT_EQ(read_file(folder_ / "state-1.pt"), "old");
}

TEST_F(Files, OnlyWhatNobodyWritesToIsRemoved) {
  const Names kept{"config.toml", "config.toml.backup", "model.pt.unfinished-000002"};
  for (const char* name :
       {"config.toml", "config.toml.backup", "model.pt.unfinished-000002", "state-1.pt.unfinished-aB3x9Z"}) {
    std::ofstream(folder_ / name) << "x";
  }
  const Descriptor writer(::open((folder_ / kept.back()).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(writer.get(), LOCK_EX | LOCK_NB), 0);
  remove_unfinished(folder_);
  EXPECT_EQ(names(), kept);
  remove_unfinished(folder_ / "missing");
}

TEST_F(Files, DevicesAndLinksStayWhatTheyAre) {
  expect_io("/dev/full: cannot write: No space left on device", [] { write_file("/dev/full", "x"); });
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  write_file("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  write_file(folder_ / "target", "old");
  fs::create_symlink("target", folder_ / "link");
  write_file(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read_file(folder_ / "target"), "new");
  fs::create_directory(folder_ / "folder");
  expect_io("folder: cannot replace: Is a directory", [&] { write_file(folder_ / "folder", "x"); });
  EXPECT_EQ(names(), (Names{"folder", "link", "target"}));
}

TEST_F(Files, AreForWhomTheUsersMaskLeavesThem) {
  const mode_t before = ::umask(077);
  write_file(folder_ / "whole", "x");
  write_file(folder_ / "whole", "replaced");
  { LineFile lines(folder_ / "lines"); }
  ::umask(002);
  write_file(folder_ / "shared", "x");
  ::umask(before);
  const auto mode = [&](const char* name) { return fs::status(folder_ / name).permissions(); };
  const auto own = fs::perms::owner_read | fs::perms::owner_write;
  EXPECT_EQ(mode("whole"), own);
  EXPECT_EQ(mode("lines"), own);
  EXPECT_EQ(mode("shared"), own | fs::perms::group_read | fs::perms::group_write | fs::perms::others_read);
}

TEST_F(Files, LinesAfterAnErrorAreErrorsToo) {
  const fs::path path = folder_ / "lines";
  LineFile lines(path);
  lines.append("whole");
  lines.flush();
  {
    const FullDisk disk(10);
    lines.append("too long for it");
    expect_io("lines: cannot write: ", [&] { lines.flush(); });
  }
  expect_io("lines: cannot write: ", [&] { lines.append("x"); });
  expect_io("lines: cannot write: ", [&] { lines.flush(); });
  EXPECT_EQ(read_file(path), "whole\ntoo ");  // what a half line is followed by would be lost with it
}

}  // namespace
}  // namespace ripieno
