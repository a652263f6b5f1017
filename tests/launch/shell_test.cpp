#include "ripieno/launch/shell.h"

#include <gtest/gtest.h>

#include "ripieno/core/error.h"
#include "ripieno/launch/lines.h"

namespace ripieno::launch {
namespace {

using Words = std::vector<std::string>;

TEST(Shell, WordsAreQuotedWhereTheyMustBe) {
  EXPECT_EQ(shell_word("/a-b/c.d=e"), "/a-b/c.d=e");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(Shell, ALineIsSplitAsAShellWould) {
  EXPECT_EQ(words_of("ssh  -p 2222 ", ""), (Words{"ssh", "-p", "2222"}));
  EXPECT_EQ(words_of("ssh -F 'my config' -o \"A=b c\"", ""), (Words{"ssh", "-F", "my config", "-o", "A=b c"}));
  EXPECT_EQ(words_of("a\\ b \"c\\\"d\\\\e\\f\" 'g\\' ''", ""), (Words{"a b", "c\"d\\e\\f", "g\\", ""}));
  EXPECT_EQ(words_of(" ", ""), Words());
  try {
    words_of("ssh -F 'my config", "RIPIENO_SSH");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_STREQ(error.what(), "RIPIENO_SSH is ssh -F 'my config, in which ' is not closed");
  }
}

TEST(Shell, PercentsLeaveNothingForAShell) {
  EXPECT_EQ(with_percents("/home/me/x-1_2.d"), "/home/me/x-1_2.d");
  EXPECT_EQ(with_percents("/a b!\n\\%'"), "/a%20b%21%0A%5C%25%27");
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(without_percents(with_percents(all)), all);
}

TEST(Lines, AnyBytesAreText) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(bytes_from_text(bytes_as_text(all)), all);
  EXPECT_EQ(bytes_as_text("plain"), "plain");
  for (const char* const damaged : {"\xC3", "\xE2\x82\xAC", "\x80", "\xC2z"})
    EXPECT_THROW(bytes_from_text(damaged), Error);
}

}  // namespace
}  // namespace ripieno::launch
