#include "ripieno/transport/tcp/endpoint.h"

#include "ripieno/transport/linked_endpoint.h"
#include "ripieno/transport/tcp/link.h"

namespace ripieno::transport {

std::shared_ptr<Endpoint> tcp_endpoint(Runtime& runtime, int rank, PeerSockets peers, TcpOptions options) {
  const auto aborts = std::make_shared<Aborts>(rank);
  std::vector<std::shared_ptr<PeerLink>> links(peers.size());
  for (int peer = 0; peer < static_cast<int>(peers.size()); ++peer) {
    if (!peers[peer]) continue;
    auto link = std::make_shared<TcpLink>(runtime, rank, peer, std::move(*peers[peer]), options, aborts);
    link->start();
    links[peer] = link;
  }
  return std::make_shared<LinkedEndpoint>(runtime, rank, std::move(links), aborts);
}

}  // namespace ripieno::transport
