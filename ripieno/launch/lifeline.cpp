#include "ripieno/launch/lifeline.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/redirect_error.hpp>
#include <asio/write.hpp>
#include <set>
#include <vector>

#include "ripieno/core/error.h"
#include "ripieno/rendezvous/address.h"
#include "ripieno/rendezvous/door.h"
#include "ripieno/rendezvous/guest.h"

namespace ripieno::launch {

using asio::ip::tcp;
using rendezvous::Connection, rendezvous::Conversation, rendezvous::Greeting, rendezvous::Token;

struct Lifelines::State : std::enable_shared_from_this<State> {
  State(Runtime& its_runtime, const std::string& listen, const Token& its_token)
      : runtime(its_runtime),
        token(its_token),
        door(std::make_shared<rendezvous::Door>(its_runtime, rendezvous::resolve(listen))) {}

  static Task<> hold(std::shared_ptr<State> state, Connection connection, Conversation conversation) {
    const std::vector<std::byte> bytes = rendezvous::answer(state->token, conversation, 0, "");
    asio::error_code error;
    auto or_error = asio::redirect_error(asio::use_awaitable, error);
    state->held.insert(connection);
    co_await asio::async_write(*connection, asio::buffer(bytes),
                               or_error);  // an agent that has ended says so otherwise
  }

  Runtime& runtime;
  const Token token;
  const std::shared_ptr<rendezvous::Door> door;
  std::set<Connection> held;
};

Lifelines::Lifelines(Runtime& runtime, const std::string& listen, const std::string& token)
    : state_(std::make_shared<State>(runtime, listen, rendezvous::parse_token(token))) {
  const auto guest = [weak = std::weak_ptr(state_)](Connection connection, const Greeting&,
                                                    const Conversation& conversation) {
    if (const auto state = weak.lock())
      asio::co_spawn(state->runtime.context(), State::hold(state, connection, conversation), asio::detached);
  };
  state_->door->open(state_->token, guest);
}

Lifelines::~Lifelines() {
  state_->door->close();
  for (const Connection& connection : state_->held) rendezvous::hang_up(*connection);
}

int Lifelines::port() const { return state_->door->endpoint().port(); }

namespace {

/// The kernel asks after the other end when nothing has come for a while, and breaks the connection without an answer.
void ask_after(int socket) {
  const auto set = [socket](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);  // seconds
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 6);
}

Task<> reach(Runtime* runtime, std::string address, Token token, Descriptor* made) {
  const tcp::endpoint where = rendezvous::resolve(address);
  const auto connection = std::make_shared<tcp::socket>(runtime->context());
  Task<asio::error_code> dialling = rendezvous::dial(*runtime, connection, where, rendezvous::longest_attempt(1));
  const asio::error_code error = co_await std::move(dialling);
  const std::string launcher = text("cannot reach the launcher at ", rendezvous::to_string(where), ": ");
  if (error) {
    fail(ErrorKind::network, launcher, rendezvous::why_not(where, error),
         ". That is where ssh came from: without a way back, such as behind a jump host, start the job on a host that "
         "these can reach");
  }
  Task<rendezvous::Answer> asking = rendezvous::ask(*runtime, connection, token, Greeting(), 0);
  const rendezvous::Answer answer = co_await std::move(asking);
  if (answer.error) fail(ErrorKind::network, launcher, answer.error.message());
  if (!answer.is_known || !answer.is_ours || answer.status != 0)
    fail(ErrorKind::network, launcher, "what answers there is not this job's launcher");
  asio::error_code failed;
  *made = Descriptor(connection->release(failed));
  if (failed) fail(ErrorKind::network, launcher, failed.message());
  ask_after(made->get());
}

}  // namespace

Descriptor reach_launcher(const std::string& address, const std::string& token) {
  const std::unique_ptr<Runtime> runtime = real_runtime(0);
  Descriptor made;
  runtime->spawn("lifeline", reach(runtime.get(), address, rendezvous::parse_token(token), &made));
  runtime->run();
  return made;
}

}  // namespace ripieno::launch
