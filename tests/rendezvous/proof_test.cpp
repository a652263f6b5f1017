#include "ripieno/rendezvous/proof.h"

#include <gtest/gtest.h>

#include "ripieno/core/error.h"

namespace ripieno::rendezvous {
namespace {

TEST(Proof, TokensAreRandomAndChecked) {
  EXPECT_NE(random_token(), random_token());
  EXPECT_EQ(random_token().size(), 64u);
  EXPECT_NE(parse_token(random_token()), Token{});
  EXPECT_THROW(parse_token("abc"), Error);
  EXPECT_THROW(parse_token(std::string(64, 'g')), Error);
}

TEST(Proof, IsOfEverythingThatWasSaid) {
  const Token token = parse_token(random_token());
  const Conversation conversation{random_nonce(), random_nonce()};
  const KeyedHash good = prove(token, conversation, Speaker::guest, "hello");
  EXPECT_TRUE(same(good, prove(token, conversation, Speaker::guest, "hello")));
  EXPECT_FALSE(same(good, prove(parse_token(random_token()), conversation, Speaker::guest, "hello")));
  EXPECT_FALSE(same(good, prove(token, {random_nonce(), conversation.guest}, Speaker::guest, "hello")));
  EXPECT_FALSE(same(good, prove(token, {conversation.door, random_nonce()}, Speaker::guest, "hello")));
  EXPECT_FALSE(same(good, prove(token, conversation, Speaker::door, "hello")));
  EXPECT_FALSE(same(good, prove(token, conversation, Speaker::guest, "hellp")));
}

/// Made with Python: hmac.new(bytes(range(32)), b"\x01" + b"\xaa" * 32 + b"\xbb" * 32 + b"words", "sha256").hexdigest()
TEST(Proof, IsHmacSha256) {
  Token token;
  Conversation conversation;
  for (std::size_t i = 0; i < token.size(); ++i) {
    token[i] = static_cast<std::byte>(i);
    conversation.door[i] = static_cast<std::byte>(0xAA);
    conversation.guest[i] = static_cast<std::byte>(0xBB);
  }
  std::string hex;
  for (const std::byte one : prove(token, conversation, Speaker::door, "words")) {
    hex += "0123456789abcdef"[std::to_integer<int>(one) >> 4];
    hex += "0123456789abcdef"[std::to_integer<int>(one) & 15];
  }
  EXPECT_EQ(hex, "4ecb547817d52a70376824f72f69994bd8817a0082689ef47753d63f093641e3");
}

}  // namespace
}  // namespace ripieno::rendezvous
