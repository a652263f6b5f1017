#include "ripieno/membership/invitation.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "ripieno/core/error.h"
#include "tests/support/temporary_folder.h"

namespace ripieno::membership {
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
  const auto path = private_folder(folder.path());
  EXPECT_EQ(path, folder.path() / "ripieno");
  EXPECT_EQ(private_folder(folder.path()), path) << "it may be there already";
  chmod(path.c_str(), 0755);
  refusal([&] { private_folder(folder.path()); });
  std::filesystem::remove(path);
  std::filesystem::create_directory_symlink("/tmp", path);
  refusal([&] { private_folder(folder.path()); });
}

}  // namespace
}  // namespace ripieno::membership
