#include "ripieno/membership/election.h"

#include <algorithm>
#include <span>

namespace ripieno::membership {
namespace {

transport::Message message(std::string_view operation, transport::Channel channel) {
  return {channel, operation, DType::int32, 1};
}

Task<> tell(std::shared_ptr<transport::Endpoint> endpoint, int peer, transport::Message what) {
  const std::int32_t rank = endpoint->rank();
  const ConstBytes payload(reinterpret_cast<const std::byte*>(&rank), sizeof rank);
  co_await endpoint->send(peer, what, payload);
}

Task<> hear(std::shared_ptr<transport::Endpoint> endpoint, int peer, transport::Message what) {
  std::int32_t rank = -1;
  const Bytes payload(reinterpret_cast<std::byte*>(&rank), sizeof rank);
  co_await endpoint->receive(peer, what, payload);
  if (rank != peer) {
    fail(ErrorKind::mismatch, "rank ", endpoint->rank(), ": ", transport::describe(what), " from rank ", peer,
         " names ", rank, ": start all ranks from the same build");
  }
}

}  // namespace

Task<int> elect(std::shared_ptr<transport::Endpoint> endpoint, std::vector<int> alive, transport::Channel channel) {
  const int rank = endpoint->rank();
  const auto me = std::lower_bound(alive.begin(), alive.end(), rank);
  require(me != alive.end() && *me == rank, "rank ", rank, " elects without being in the list of those alive");
  require(std::adjacent_find(alive.begin(), alive.end(), std::greater_equal<int>()) == alive.end(), "rank ", rank,
          " elects among a list that is not ascending");
  require(alive.front() >= 0 && alive.back() < endpoint->size(), "rank ", rank, " elects among ranks ", alive.front(),
          " to ", alive.back(), " of ", endpoint->size());
  const transport::Message election = message("ELECTION", channel), ok = message("OK", channel),
                           coordinator = message("COORDINATOR", channel);
  const std::span<const int> lower(alive.begin(), me), higher(me + 1, alive.end());

  // 1. Election, to the highest rank first: only that one has nothing to send, so it receives, and then the next does.
  for (auto peer = higher.rbegin(); peer != higher.rend(); ++peer) co_await tell(endpoint, *peer, election);

  // 2. Answer
  for (const int peer : lower) co_await hear(endpoint, peer, election);
  for (const int peer : lower) co_await tell(endpoint, peer, ok);

  // 3. Give way
  if (!higher.empty()) {
    for (auto peer = higher.rbegin(); peer != higher.rend(); ++peer) co_await hear(endpoint, *peer, ok);
    co_await hear(endpoint, higher.back(), coordinator);
    co_return higher.back();
  }

  // 4. Lead
  for (const int peer : lower) co_await tell(endpoint, peer, coordinator);
  co_return rank;
}

}  // namespace ripieno::membership
