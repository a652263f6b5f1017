#include "ripieno/rendezvous/greeting.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <ios>

#include "ripieno/core/error.h"

namespace ripieno::rendezvous {

static_assert(std::endian::native == std::endian::little, "greetings are sent as they lie in memory");

namespace {

/// All that is said but the proof, which comes last of a fixed part.
std::string words(const Greeting& greeting) {
  return std::string(reinterpret_cast<const char*>(&greeting), offsetof(Greeting, proof));
}

std::string words(const AnswerHead& head, const std::string& content) {
  return std::string(reinterpret_cast<const char*>(&head), offsetof(AnswerHead, proof)) + content;
}

}  // namespace

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

Conversation Greeting::prove(const Token& token, const Challenge& challenge) {
  nonce = random_nonce();
  const Conversation conversation{challenge.nonce, nonce};
  proof = rendezvous::prove(token, conversation, Speaker::guest, words(*this));
  return conversation;
}

bool Greeting::proves(const Token& token, const Challenge& challenge) const {
  return magic == expected_magic &&
         same(proof, rendezvous::prove(token, {challenge.nonce, nonce}, Speaker::guest, words(*this)));
}

std::vector<std::byte> answer(const Token& token, const Conversation& conversation, std::uint32_t status,
                              const std::string& content) {
  AnswerHead head;
  head.status = status;
  head.length = static_cast<std::uint32_t>(content.size());
  head.proof = prove(token, conversation, Speaker::door, words(head, content));
  std::vector<std::byte> bytes(sizeof head + content.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, content.data(), content.size());
  return bytes;
}

bool proves(const Token& token, const Conversation& conversation, const AnswerHead& head, const std::string& content) {
  return same(head.proof, prove(token, conversation, Speaker::door, words(head, content)));
}

std::string other_recipe(int rank, std::uint64_t digest, int other, std::uint64_t others) {
  return text("rank ", rank, " was started with another recipe than rank ", other, " (digests ", std::hex, digest,
              " and ", others, "): give all workers the same recipe and options");
}

}  // namespace ripieno::rendezvous
