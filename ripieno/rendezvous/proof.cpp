#include "ripieno/rendezvous/proof.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "ripieno/core/error.h"
#include "ripieno/core/span.h"

namespace ripieno::rendezvous {
namespace {

void fill(Bytes bytes) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) != 1) {
    fail(ErrorKind::io, "OpenSSL gives no random bytes: ", ERR_reason_error_string(ERR_get_error()));
  }
}

}  // namespace

std::string random_token() {
  Token bytes;
  fill(bytes);
  std::string token;
  for (const std::byte one : bytes) {
    token += "0123456789abcdef"[std::to_integer<int>(one) >> 4];
    token += "0123456789abcdef"[std::to_integer<int>(one) & 15];
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

Nonce random_nonce() {
  Nonce nonce;
  fill(nonce);
  return nonce;
}

KeyedHash prove(const Token& token, const Conversation& conversation, Speaker speaker, const std::string& words) {
  std::string said(1, static_cast<char>(speaker));
  for (const Nonce* nonce : {&conversation.door, &conversation.guest})
    said.append(reinterpret_cast<const char*>(nonce->data()), nonce->size());
  said += words;
  KeyedHash proof;
  const unsigned char* made = HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
                                   reinterpret_cast<const unsigned char*>(said.data()), said.size(),
                                   reinterpret_cast<unsigned char*>(proof.data()), nullptr);
  require(made != nullptr, "OpenSSL makes no HMAC: ", ERR_reason_error_string(ERR_get_error()));
  return proof;
}

bool same(const KeyedHash& one, const KeyedHash& other) {
  return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace ripieno::rendezvous
