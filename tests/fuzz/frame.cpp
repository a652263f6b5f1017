// The header of a message, and a whole connection: what a peer sends when it may send anything.
#include <sys/socket.h>

#include <cstring>
#include <optional>
#include <vector>

#include "ripieno/transport/frame.h"
#include "ripieno/transport/tcp/endpoint.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ripieno;

/// A header with the right checksum, which random bytes do not have.
transport::FrameBytes sealed(const std::uint8_t* data) {
  transport::FrameBytes bytes;
  std::memcpy(bytes.data(), data, bytes.size());
  transport::seal(bytes);
  return bytes;
}

void check_frame(const std::uint8_t* data) {
  const transport::FrameBytes bytes = sealed(data);
  if (const auto frame = transport::decode(bytes))
    require(encode(*frame) == bytes, "a frame that is encoded as another");
}

Task<> receive(transport::Endpoint* endpoint) {
  std::vector<float> numbers(16);
  for (std::uint32_t id = 0; id < 3; ++id) {
    const transport::Message message{{observe::Purpose::exchange, id % 2, 0}, "ring", DType::fp32, numbers.size()};
    co_await endpoint->receive(1, message, NumberSpan(numbers), numeric::Reduce::add);
  }
}

/// Rank 0 of two receives what rank 1 sends before it hangs up.
void receive_from(std::string_view bytes) {
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no pair of sockets");
  const bool sent = ::send(ends[1], bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 || bytes.empty();
  ::close(ends[1]);
  const auto runtime = real_runtime(0);
  transport::PeerSockets peers(2);
  peers[1].emplace(runtime->context(), asio::ip::tcp::v4(), ends[0]);
  if (!sent) return;
  const transport::LinkOptions link{.unasked_bytes = 4096, .timeout = std::chrono::seconds(2)};
  const auto endpoint = transport::tcp_endpoint(*runtime, 0, std::move(peers), {.link = link});
  runtime->spawn("receive", receive(endpoint.get()));
  fuzz::take_or_refuse([&] { runtime->run(); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  receive_from(fuzz::as_text(data, size));
  if (size < transport::frame_bytes) return 0;
  check_frame(data);
  std::string bytes(fuzz::as_text(data, size));
  std::memcpy(bytes.data(), sealed(data).data(), transport::frame_bytes);
  receive_from(bytes);
  return 0;
}
