#include "ripieno/membership/greeting.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <system_error>

#include "ripieno/core/error.h"

namespace ripieno {

static_assert(std::endian::native == std::endian::little, "greetings are sent as they lie in memory");

std::string random_token() {
  std::array<unsigned char, 32> bytes;
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorKind::io, "the kernel gives no random bytes: ", std::generic_category().message(errno));
    filled += static_cast<std::size_t>(got);
  }
  std::string token;
  for (const unsigned char byte : bytes) {
    token += "0123456789abcdef"[byte >> 4];
    token += "0123456789abcdef"[byte & 15];
  }
  return token;
}

Token parse_token(const std::string& token) {
  auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  Token parsed{};
  bool good = token.size() == 2 * parsed.size();
  for (std::size_t i = 0; good && i < parsed.size(); ++i) {
    const int high = digit(token[2 * i]), low = digit(token[2 * i + 1]);
    good = high >= 0 && low >= 0;
    parsed[i] = static_cast<std::byte>(high * 16 + low);
  }
  if (!good) {
    fail(ErrorKind::usage, "a job's token is 64 hexadecimal digits (0-9, a-f); the one given, of ", token.size(),
         " characters, is not");
  }
  return parsed;
}

AddressField address_field(const std::string& address) {
  AddressField field{};
  if (address.size() >= field.size()) {
    fail(ErrorKind::usage, "the address '", address, "' has more than ", field.size() - 1, " characters");
  }
  std::copy(address.begin(), address.end(), field.begin());
  return field;
}

std::optional<std::string> address_of(const AddressField& field) {
  const auto end = std::find(field.begin(), field.end(), '\0');
  if (end == field.end()) return std::nullopt;
  return std::string(field.begin(), end);
}

bool Greeting::knows(const Token& other) const {
  std::byte difference{};
  for (std::size_t i = 0; i < token.size(); ++i) difference |= token[i] ^ other[i];
  return difference == std::byte{};
}

}  // namespace ripieno
