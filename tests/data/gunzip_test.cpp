#include "ripieno/data/gunzip.h"

#include <sys/wait.h>

#include <future>

#include "files.h"
#include "ripieno/core/file.h"

namespace ripieno::data {
namespace {

/// Bytes that hardly pack, so that the packed file takes several reads.
std::string content(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint32_t x = 1;
  for (char& byte : bytes) byte = static_cast<char>((x = x * 1664525u + 1013904223u) >> 24);
  return bytes;
}

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(Gunzip, UnpacksOnce) {
  TemporaryFolder folder;
  for (const std::size_t size : {0u, 1u, 1000u, 700'000u}) {
    const std::string plain = content(size), packed = gzip(plain);
    write(folder.path() / "x.gz", packed);
    const Unpacked first = unpack_gzip(folder.path() / "x.gz", folder.path() / "cache");
    EXPECT_EQ(read_file(first.path), plain);
    EXPECT_EQ(first.bytes_read, packed.size() + 8);
    const Unpacked second = unpack_gzip(folder.path() / "x.gz", folder.path() / "cache");
    EXPECT_EQ(second.path, first.path);
    EXPECT_EQ(second.bytes_read, 8u);
  }
}

TEST(Gunzip, KeepsFilesOfOneNameApart) {
  TemporaryFolder folder;
  write(folder.path() / "a/x.gz", gzip("one"));
  write(folder.path() / "b/x.gz", gzip("two"));
  const auto cache = folder.path() / "cache";
  const auto a = unpack_gzip(folder.path() / "a/x.gz", cache), b = unpack_gzip(folder.path() / "b/x.gz", cache);
  EXPECT_EQ(read_file(a.path), "one");
  EXPECT_EQ(read_file(b.path), "two");
}

TEST(Gunzip, ReplacesACachedFileOfAnotherSize) {
  TemporaryFolder folder;
  write(folder.path() / "x.gz", gzip("the content"));
  const auto cached = unpack_gzip(folder.path() / "x.gz", folder.path() / "cache").path;
  std::filesystem::resize_file(cached, 3);
  EXPECT_EQ(unpack_gzip(folder.path() / "x.gz", folder.path() / "cache").path, cached);
  EXPECT_EQ(read_file(cached), "the content");
}

TEST(Gunzip, ReplacesADamagedCachedFile) {
  TemporaryFolder folder;
  const std::string plain = content(700'000);
  write(folder.path() / "x.gz", gzip(plain));
  const auto cached = unpack_gzip(folder.path() / "x.gz", folder.path() / "cache").path;
  std::string damaged = plain;
  damaged[600'000] ^= 1;
  write(cached, damaged);
  EXPECT_EQ(unpack_gzip(folder.path() / "x.gz", folder.path() / "cache").path, cached);
  EXPECT_EQ(read_file(cached), plain);
}

TEST(Gunzip, RefusesWhatIsTruncatedOrCorrupt) {
  TemporaryFolder folder;
  const auto path = folder.path() / "x.gz", cache = folder.path() / "cache";
  const auto expect_refused = [&](const std::string& bytes, std::vector<std::string> parts) {
    write(path, bytes);
    parts.push_back(path.string());
    expect_error(ErrorKind::data, parts, [&] { unpack_gzip(path, cache); });
    EXPECT_FALSE(std::filesystem::exists(cache)) << "something was left in the cache";
  };
  const std::string good = gzip(content(5000));
  expect_refused("", {"0 bytes", "18"});
  expect_refused(good.substr(0, 17), {"17 bytes", "18"});
  for (const std::size_t length : {std::size_t{18}, good.size() / 2, good.size() - 1}) {
    expect_refused(good.substr(0, length), {"truncated", "fetch it again"});
  }
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, good.size() / 2, good.size() - 8, good.size() - 4}) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
    expect_refused(bytes, {"corrupt"});
  }
  expect_refused(good + "trailing", {"corrupt"});
  expect_refused(good + good, {"not one whole gzip member"});
  std::string absurd = good;
  absurd.replace(absurd.size() - 4, 4, "\xFF\xFF\xFF\xFF");
  expect_refused(absurd, {"4294967295", text("offset ", good.size() - 4), "at most"});
}

TEST(Gunzip, ManyThreadsAtOnceGetTheWholeFile) {
  TemporaryFolder folder;
  const std::string plain = content(300'000), packed = gzip(plain);
  write(folder.path() / "x.gz", packed);
  std::vector<std::future<std::uint64_t>> workers;
  for (int i = 0; i < 8; ++i) {
    workers.push_back(std::async(std::launch::async, [&] {
      const Unpacked file = unpack_gzip(folder.path() / "x.gz", folder.path() / "cache");
      return read_file(file.path) == plain ? file.bytes_read : 0;
    }));
  }
  for (auto& worker : workers) {
    const std::uint64_t bytes = worker.get();  // the trailer, and the rest for whoever finds nothing unpacked yet
    EXPECT_TRUE(bytes == 8 || bytes == 8 + packed.size()) << bytes;
  }
  EXPECT_EQ(files_in(folder.path() / "cache"), 1u);
}

TEST(Gunzip, ManyProcessesAtOnceGetTheWholeFile) {
  TemporaryFolder folder;
  const std::string plain = content(300'000);
  write(folder.path() / "x.gz", gzip(plain));
  std::vector<pid_t> workers;
  for (int i = 0; i < 6; ++i) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      bool same = false;
      try {
        same = read_file(unpack_gzip(folder.path() / "x.gz", folder.path() / "cache").path) == plain;
      } catch (const std::exception&) {  // told by the exit code
      }
      ::_exit(same ? 0 : 1);
    }
    workers.push_back(pid);
  }
  for (const pid_t pid : workers) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  }
  EXPECT_EQ(files_in(folder.path() / "cache"), 1u);
}

}  // namespace
}  // namespace ripieno::data
