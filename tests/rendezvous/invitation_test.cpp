#include "ripieno/rendezvous/invitation.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "ripieno/core/error.h"
#include "tests/support/temporary_folder.h"

namespace ripieno::rendezvous {
namespace {

/// The message of the Error(usage) that it throws.
template <typename Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "is not refused";
  return "";
}

TEST(Invitation, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "job";
  EXPECT_FALSE(InvitationFile(path).find()) << "not yet";
  InvitationFile(path).leave({{"10.0.0.1:80", "[fd00::1]:80"}, "secret"});
  const auto found = InvitationFile(path).find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->addresses, (std::vector<std::string>{"10.0.0.1:80", "[fd00::1]:80"}));
  EXPECT_EQ(found->token, "secret");
  InvitationFile(path).leave({{"10.0.0.2:80"}, "another"});
  EXPECT_EQ(InvitationFile(path).find()->token, "another") << "an older one is replaced";
  struct stat file {};
  ASSERT_EQ(stat(path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "nothing else is left";
}

TEST(Invitation, ARankIsOneProcessWhileItMeetsTheOthers) {
  const TemporaryFolder folder;
  const InvitationFile job(folder.path() / "job");
  {
    const auto rank0 = job.claim(0), rank1 = job.claim(1);
    const std::string second = refusal([&] { job.claim(1); });
    EXPECT_NE(second.find(text("rank 1 of this job is process ", ::getpid(), " already")), std::string::npos) << second;
    EXPECT_NE(second.find("MASTER_PORT"), std::string::npos) << second;
    EXPECT_NO_THROW(InvitationFile(folder.path() / "other").claim(1));
  }
  EXPECT_NO_THROW(job.claim(1)) << "once it has met them, another job may have the name";
}

TEST(Invitation, TheClaimOfAProcessThatWasKilledIsFree) {
  const TemporaryFolder folder;
  const InvitationFile job(folder.path() / "job");
  const pid_t child = ::fork();
  if (child == 0) {
    const auto claim = job.claim(1);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_NO_THROW(job.claim(1));
}

TEST(Invitation, IsBelievedOnlyIfNobodyElseSeesIt) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "job";
  InvitationFile(path).leave({{"10.0.0.1:80"}, "secret"});
  chmod(path.c_str(), 0644);
  const std::string readable = refusal([&] { InvitationFile(path).find(); });
  EXPECT_NE(readable.find("mode 644"), std::string::npos) << readable;
  EXPECT_NE(readable.find(path.string()), std::string::npos) << readable;
  if (::getuid() == 0) {
    chmod(path.c_str(), 0600);
    ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
    const std::string others = refusal([&] { InvitationFile(path).find(); });
    EXPECT_NE(others.find("belongs to user 12345"), std::string::npos) << others;
  }
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/etc/passwd", path);
  EXPECT_THROW(InvitationFile(path).find(), Error) << "a link may lead anywhere";
}

TEST(Invitation, OtherFilesAreNone) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "job";
  for (const char* content : {"", "hello\n", "Ripieno's invitation to a job's rendezvous\n",
                              "Ripieno's invitation to a job's rendezvous\nsecret\n"}) {
    std::ofstream(path) << content;
    chmod(path.c_str(), 0600);
    EXPECT_THROW(InvitationFile(path).find(), Error) << content;
  }
  EXPECT_THROW(InvitationFile(folder.path() / "none" / "job").leave({{"a:1"}, "b"}), Error);
}

TEST(Invitation, TokensAreReadFromFilesOfTheUsersOwn) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "token";
  std::ofstream(path) << "  secret\n";
  chmod(path.c_str(), 0600);
  EXPECT_EQ(read_token(path), "secret");
  chmod(path.c_str(), 0640);
  refusal([&] { read_token(path); });
  EXPECT_THROW(read_token(folder.path() / "none"), Error);
}

TEST(Invitation, TheFolderIsTheUsersAlone) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "ripieno", other = folder.path() / "other";
  EXPECT_EQ(private_folder({path, other}), path);
  EXPECT_EQ(private_folder({path, other}), path) << "it may be there already";
  chmod(path.c_str(), 0755);
  refusal([&] { private_folder({path}); });
  EXPECT_EQ(private_folder({path, other}), other) << "another place will do";
  std::filesystem::remove(path);
  std::filesystem::create_directory_symlink("/tmp", path);
  refusal([&] { private_folder({path}); });
  EXPECT_EQ(private_folder({path, other}), other);
  std::filesystem::remove(path);
  std::ofstream(path) << "a file";
  EXPECT_EQ(private_folder({path, other}), other);
  if (::getuid() != 0) return;
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  EXPECT_EQ(private_folder({path, other}), other) << "another user has taken the name";
}

}  // namespace
}  // namespace ripieno::rendezvous
