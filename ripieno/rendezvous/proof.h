// How two processes prove to each other that they know the job's token, which itself never travels: each hashes two
// random numbers, one of either side, together with what it says, keyed with the token (HMAC-SHA-256). A proof that
// somebody overheard is good for nothing else: the next conversation has other numbers.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace ripieno::rendezvous {

/// The secret that a job's processes share, in binary.
using Token = std::array<std::byte, 32>;

/// 32 random bytes from the kernel as 64 hexadecimal digits. Error(io): the kernel gives none.
std::string random_token();

/// Error(usage), which does not repeat the text, unless `token` is 64 hexadecimal digits.
Token parse_token(const std::string& token);

/// A number that is used once.
using Nonce = std::array<std::byte, 32>;
/// Error(io): the kernel gives no random bytes.
Nonce random_nonce();

/// The numbers of a conversation between a door (door.h) and its guest.
struct Conversation {
  Nonce door{}, guest{};
};

enum class Speaker : unsigned char { door = 1, guest = 2 };

/// HMAC-SHA-256.
using KeyedHash = std::array<std::byte, 32>;

/// That the speaker knows the token and has said `words` in this conversation.
KeyedHash prove(const Token& token, const Conversation& conversation, Speaker speaker, const std::string& words);

/// Takes the same time wherever they differ.
bool same(const KeyedHash& one, const KeyedHash& other);

}  // namespace ripieno::rendezvous
