#include "ripieno/rendezvous/strangers.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <numeric>
#include <vector>

#include "ripieno/core/error.h"
#include "ripieno/rendezvous/greeting.h"

namespace ripieno::rendezvous {
namespace {

constexpr std::size_t most_addresses = 8, most_kinds = 6, longest_sample = 8;
constexpr const char* elsewhere = "other addresses";
constexpr const char* otherwise = "other bytes";

std::string sample(const std::string& bytes) {
  const bool is_text = std::all_of(bytes.begin(), bytes.end(), [](unsigned char c) { return std::isprint(c) != 0; });
  if (is_text) return "'" + bytes + "'";
  std::string hexadecimal = "0x";
  for (const unsigned char byte : bytes) {
    hexadecimal += "0123456789abcdef"[byte >> 4];
    hexadecimal += "0123456789abcdef"[byte & 15];
  }
  return hexadecimal;
}

/// The key, or `rest` once there are `most` others.
template <class Value>
Value& bounded(std::map<std::string, Value>& values, const std::string& key, std::size_t most, const char* rest) {
  return values.size() < most || values.count(key) ? values[key] : values[rest];
}

template <class Counts>
std::size_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0},
                         [](std::size_t before, const auto& one) { return before + one.second; });
}

}  // namespace

std::string what_was_said(ConstBytes said) {
  const std::string bytes(reinterpret_cast<const char*>(said.data()), std::min(said.size(), longest_sample));
  std::string ours(sizeof expected_magic, '\0');
  std::memcpy(ours.data(), &expected_magic, ours.size());
  if (bytes.empty()) return "silent";
  if (ours.starts_with(bytes)) return said.size() < sizeof(Greeting) ? "part of a greeting" : "another token";
  if (bytes.size() > 4 && bytes.starts_with(ours.substr(0, 4))) return "another version of Ripieno";
  for (const char* method : {"GET ", "POST ", "HEAD ", "PUT ", "OPTIONS ", "CONNECT ", "PRI * HT"}) {
    if (bytes.starts_with(method)) return "HTTP";
  }
  if (bytes.starts_with("\x16\x03")) return "TLS";
  if (bytes.starts_with("SSH-")) return "SSH";
  return sample(bytes);
}

void Strangers::add(const asio::ip::address& from, const std::string& said) {
  ++bounded(bounded(by_address_, from.to_string(), most_addresses, elsewhere), said, most_kinds, otherwise);
}

std::string Strangers::remark() const {
  std::size_t all = 0;
  std::vector<std::string> addresses;
  for (const auto& [address, counts] : by_address_) {
    std::string kinds;
    for (const auto& [kind, count] : counts) kinds += text(kinds.empty() ? "" : ", ", count, " ", kind);
    addresses.push_back(text(address, " (", kinds, ")"));
    all += sum(counts);
  }
  if (all == 0) return {};
  std::string remark =
      text("; ", all, all > 1 ? " connections were" : " connection was", " closed that no rank had made: ");
  for (const std::string& address : addresses) remark += text(&address == addresses.data() ? "" : ", ", address);
  return remark + ": keep them away from this port";
}

}  // namespace ripieno::rendezvous
