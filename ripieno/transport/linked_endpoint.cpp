#include "ripieno/transport/linked_endpoint.h"

#include "ripieno/core/async.h"

namespace ripieno::transport {
namespace {

constexpr Scope among_survivors = 0x7375727669766F72;  // "survivor": of no communicator

ConstBytes bytes_of(const std::vector<std::uint8_t>& ranks) { return std::as_bytes(std::span(ranks)); }
Bytes bytes_of(std::vector<std::uint8_t>& ranks) { return std::as_writable_bytes(std::span(ranks)); }

}  // namespace

Task<std::vector<int>> LinkedEndpoint::survivors() {
  for (int peer = 0; peer < size(); ++peer) {
    if (links_[static_cast<std::size_t>(peer)] && links_[static_cast<std::size_t>(peer)]->has_given_up())
      fail(Loss{peer, Lost::silent}, "rank ", rank_, ": gave up on rank ", peer,
           ", which may be alive: it cannot say who is left");
  }
  if (rank_ == 0) {
    co_await decide_who_is_left();
  } else {
    co_await ask_who_is_left();
  }
  ++agreed_;
  std::vector<int> alive;
  for (int rank = 0; rank < size(); ++rank) {
    if (!left_out_[static_cast<std::size_t>(rank)]) alive.push_back(rank);
  }
  co_return alive;
}

Task<> LinkedEndpoint::decide_who_is_left() {
  const auto ranks = links_.size();
  std::vector<std::vector<std::uint8_t>> said(ranks);  // whom each has lost; empty: it has not come
  for (std::size_t peer = 1; peer < ranks; ++peer) {
    if (left_out_[peer]) continue;
    said[peer].resize(ranks);
    Task<> hearing = links_[peer]->receive(about_survivors("stopped"), bytes_of(said[peer]));
    const std::exception_ptr error = co_await error_of(std::move(hearing));
    if (!error && !links_[peer]->has_ended()) continue;
    if (error && links_[peer]->has_given_up()) std::rethrow_exception(error);
    said[peer].clear();
    left_out_[peer] = 1;
  }
  for (std::size_t peer = 1; peer < ranks; ++peer) {
    for (std::size_t other = 1; other < ranks && !left_out_[peer]; ++other) {
      if (said[peer][other]) left_out_[other] = 1;
    }
  }
  for (std::size_t peer = 1; peer < ranks; ++peer) {
    if (said[peer].empty()) continue;
    Task<> telling = links_[peer]->send(about_survivors("survivors"), bytes_of(left_out_));
    co_await error_of(std::move(telling));  // a rank that is lost by now is missed by the next operation
  }
}

Task<> LinkedEndpoint::ask_who_is_left() {
  const std::vector<std::uint8_t> own = lost();
  co_await links_[0]->send(about_survivors("stopped"), bytes_of(own));
  co_await links_[0]->receive(about_survivors("survivors"), bytes_of(left_out_));
  if (left_out_[static_cast<std::size_t>(rank_)]) throw left_out(rank_);
}

/// By rank: whether this rank has lost it.
std::vector<std::uint8_t> LinkedEndpoint::lost() const {
  std::vector<std::uint8_t> ranks(links_.size());
  for (std::size_t peer = 0; peer < ranks.size(); ++peer) ranks[peer] = links_[peer] && links_[peer]->has_ended();
  return ranks;
}

Message LinkedEndpoint::about_survivors(std::string_view step) const {
  return {{observe::Purpose::control, agreed_, among_survivors}, step, DType::uint8, links_.size()};
}

}  // namespace ripieno::transport
