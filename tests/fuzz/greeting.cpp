// What a stranger, and one who knows the token, may send to the rendezvous of a job.
#include <asio/connect.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/write.hpp>
#include <cstring>

#include "ripieno/rendezvous/address.h"
#include "ripieno/rendezvous/greeting.h"
#include "ripieno/rendezvous/rendezvous.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ripieno;

const std::string token(64, 'a');

/// knows: what is said begins with a greeting, and proves that its sender knows the token.
Task<> speak(Runtime* runtime, rendezvous::Rendezvous* rendezvous, std::string said, bool knows) {
  {
    asio::ip::tcp::socket socket(runtime->context());
    asio::error_code ignored;
    socket.connect(rendezvous::resolve(rendezvous->address()), ignored);
    rendezvous::Challenge challenge;
    const asio::mutable_buffer in(&challenge, sizeof challenge);
    auto come = asio::redirect_error(asio::use_awaitable, ignored);
    co_await asio::async_read(socket, in, come);
    if (knows) {
      rendezvous::Greeting greeting;
      std::memcpy(&greeting, said.data(), sizeof greeting);
      greeting.magic = rendezvous::expected_magic;
      greeting.prove(rendezvous::parse_token(token), challenge);
      std::memcpy(said.data(), &greeting, sizeof greeting);
    }
    asio::write(socket, asio::buffer(said), ignored);
    socket.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    for (int i = 0; i < 20; ++i) co_await runtime->yield();
    co_await runtime->sleep(from_seconds(2e-4));
  }
  rendezvous->close();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < sizeof(rendezvous::Greeting)) return 0;
  rendezvous::Greeting greeting;
  std::memcpy(&greeting, data, sizeof greeting);
  fuzz::take_or_refuse([&] {
    if (const auto address = rendezvous::address_of(greeting.address)) rendezvous::parse_address(*address);
  });
  const std::string said(fuzz::as_text(data, size));
  const bool knows = data[size - 1] % 2 == 0;
  const auto runtime = real_runtime(0);
  rendezvous::Rendezvous rendezvous(*runtime, "127.0.0.1:0", token, 2, std::chrono::milliseconds(50));
  runtime->spawn("rendezvous", rendezvous.serve());
  runtime->spawn("a stranger", speak(runtime.get(), &rendezvous, said, knows));
  fuzz::take_or_refuse([&] { runtime->run(); });
  return 0;
}
