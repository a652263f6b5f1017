// A peer through shared memory that the test plays by hand.
#pragma once

#include <asio/read.hpp>
#include <asio/write.hpp>

#include "ripieno/transport/shared/hello.h"
#include "tests/transport/ranks.h"

namespace ripieno::testing {

inline constexpr std::size_t stranger_ring = 4096;  // bytes

/// Rank 0 of two runs `body`; its one peer plays by the rules until it is there and then does `what` with what it shows
/// and with what it has of rank 0. `all_share`: the two have an engine. Returns how rank 0 ends.
inline Outcome beside_stranger(const Body& body, bool all_share,
                               const std::function<void(transport::SharedHub&, transport::SharedPeer&)>& what) {
  const auto fds = connect_all(2);
  Outcome outcome;
  std::thread honest([&] {
    auto runtime = real_runtime(0);
    transport::SharedOptions options;
    options.ring_bytes = stranger_ring;
    options.link.timeout = std::chrono::seconds(60);
    try {
      auto endpoint = make_endpoint(Way::shared, *runtime, 0, fds[0], options);
      EXPECT_EQ(endpoint->way(1), "shared memory");
      runtime->spawn("rank 0", body(endpoint.get()));
      runtime->run();
    } catch (const Error& e) {
      outcome = {e.what(), e.kind()};
    }
  });
  auto runtime = real_runtime(1);
  tcp::socket socket(runtime->context(), tcp::v4(), fds[1][0]);
  const std::uint64_t word = transport::check_word();
  auto hub = std::make_shared<transport::SharedHub>(*runtime, 2, stranger_ring, 0, word);
  const transport::SharedHello hello = transport::shared_hello(hub.get(), word, stranger_ring);
  const char could = 1;
  asio::write(socket, asio::buffer(&hello, sizeof hello));
  asio::write(socket, asio::buffer(&could, 1));
  transport::SharedHello theirs;
  char answer = 0;
  asio::read(socket, asio::buffer(&theirs, sizeof theirs));
  asio::read(socket, asio::buffer(&answer, 1));
  EXPECT_EQ(answer, 1);
  const char every = all_share ? 1 : 0;
  asio::write(socket, asio::buffer(&every, 1));
  asio::read(socket, asio::buffer(&answer, 1));
  std::string why;
  auto peer = transport::open_peer(hello, theirs, 1, &why);
  EXPECT_TRUE(peer) << why;
  what(*hub, *peer);
  peer->ring_bell();
  honest.join();
  return outcome;
}

}  // namespace ripieno::testing
