// How every connection of a job begins. The door (door.h), which listens, says a Challenge. The guest, which has
// connected, answers with a Greeting, and the door with an Answer. Greeting and Answer prove that their speakers know
// the job's token (proof.h). Sizes are fixed or bounded, so that a stranger (who does not know the token) cannot make
// the receiver allocate memory.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/rendezvous/proof.h"

namespace ripieno::rendezvous {

inline constexpr std::uint64_t expected_magic = 0x323030304E504952;  ///< "RIPN0002": name and version

struct Challenge {
  std::uint64_t magic = expected_magic;
  Nonce nonce{};  ///< the door's
};
static_assert(sizeof(Challenge) == 40 && std::is_trivially_copyable_v<Challenge>);

/// "host:port", padded with zeros.
using AddressField = std::array<char, 72>;
/// Error(usage): it does not fit.
AddressField address_field(const std::string& address);
/// nullopt if the field does not end with a zero.
std::optional<std::string> address_of(const AddressField& field);

struct Greeting {
  std::uint64_t magic = expected_magic;
  Nonce nonce{};  ///< the guest's
  std::uint32_t rank = 0, world_size = 0;
  std::uint64_t digest = 0;
  AddressField address{};  ///< where the guest listens
  KeyedHash proof{};       ///< of all the above

  /// Fills in nonce and proof. Returns the conversation that it belongs to.
  Conversation prove(const Token& token, const Challenge& challenge);
  /// Whether it answers this challenge and its sender knows the token.
  bool proves(const Token& token, const Challenge& challenge) const;
};
static_assert(sizeof(Greeting) == 160 && std::is_trivially_copyable_v<Greeting>);

/// The head of an answer, before `length` bytes of content: with `status` 0 what the guest wants to know, or an
/// ErrorKind and its message.
struct AnswerHead {
  std::uint64_t magic = expected_magic;
  std::uint32_t status = 0;
  std::uint32_t length = 0;
  KeyedHash proof{};  ///< of all the above and the content
};
static_assert(sizeof(AnswerHead) == 48 && std::is_trivially_copyable_v<AnswerHead>);
inline constexpr std::uint32_t longest_error = 4000;
/// A status without a proof: whoever greets does not know the token of whoever answers, and need not come again.
inline constexpr std::uint32_t unproven = 0xFFFFFFFF;

/// Head and content, as they are sent.
std::vector<std::byte> answer(const Token& token, const Conversation& conversation, std::uint32_t status,
                              const std::string& content);
/// Whether the door that gave this answer knows the token.
bool proves(const Token& token, const Conversation& conversation, const AnswerHead& head, const std::string& content);

/// The error's words when a rank's recipe differs from another's.
std::string other_recipe(int rank, std::uint64_t digest, int other, std::uint64_t others);

}  // namespace ripieno::rendezvous
