// The first message on every connection of a job. Its size is fixed, so that a stranger (a peer without the job's
// token) cannot make the receiver allocate memory.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "ripieno/core/runtime.h"

namespace ripieno::membership {

/// The secret that a job's processes share, in binary.
using Token = std::array<std::byte, 32>;

/// 32 random bytes from the kernel as 64 hexadecimal digits.
std::string random_token();

/// Error(usage), which does not repeat the text, unless `token` is 64 hexadecimal digits.
Token parse_token(const std::string& token);

/// "host:port", padded with zeros.
using AddressField = std::array<char, 72>;
/// Error(usage): it does not fit.
AddressField address_field(const std::string& address);
/// nullopt if the field does not end with a zero.
std::optional<std::string> address_of(const AddressField& field);

struct Greeting {
  static constexpr std::uint64_t expected_magic = 0x313030304E504952;  // "RIPN0001": name and version
  std::uint64_t magic = expected_magic;
  Token token{};
  std::uint32_t rank = 0, world_size = 0;
  std::uint64_t digest = 0;
  AddressField address{};  ///< where the sender listens

  /// Whether it carries this token; takes the same time wherever the tokens differ.
  bool knows(const Token& token) const;
};
static_assert(sizeof(Greeting) == 128 && std::is_trivially_copyable_v<Greeting>);

/// The answer: `status` 0 and `length` bytes of content, or an ErrorKind and as many bytes of message.
struct GreetingAnswer {
  std::uint64_t magic = Greeting::expected_magic;
  std::uint32_t status = 0;
  std::uint32_t length = 0;
};
static_assert(sizeof(GreetingAnswer) == 16 && std::is_trivially_copyable_v<GreetingAnswer>);
inline constexpr std::uint32_t longest_error = 4000;

/// The error's words when a rank's recipe differs from another's.
std::string other_recipe(int rank, std::uint64_t digest, int other, std::uint64_t others);

}  // namespace ripieno::membership
