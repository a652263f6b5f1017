#include "ripieno/membership/greeting.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/rand.h>

#include <algorithm>
#include <bit>
#include <ios>

#include "ripieno/core/error.h"

namespace ripieno::membership {

static_assert(std::endian::native == std::endian::little, "greetings are sent as they lie in memory");

std::string random_token() {
  std::array<unsigned char, 32> bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    fail(ErrorKind::io, "OpenSSL gives no random bytes: ", ERR_reason_error_string(ERR_get_error()));
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

bool Greeting::knows(const Token& other) const { return CRYPTO_memcmp(token.data(), other.data(), token.size()) == 0; }

std::string other_recipe(int rank, std::uint64_t digest, int other, std::uint64_t others) {
  return text("rank ", rank, " was started with another recipe than rank ", other, " (digests ", std::hex, digest,
              " and ", others, "): give all workers the same recipe and options");
}

}  // namespace ripieno::membership
