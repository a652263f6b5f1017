#include "ripieno/rendezvous/guest.h"

#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/write.hpp>

#include "ripieno/core/error.h"
#include "ripieno/rendezvous/interfaces.h"
#include "ripieno/rendezvous/sockets.h"

namespace ripieno::rendezvous {
namespace {

using asio::ip::tcp;

/// A door challenges as it accepts; its process may be busy meanwhile.
constexpr auto longest_silence = std::chrono::seconds(5);

/// Closes a connection that makes no progress until its end of scope.
class Patience {
 public:
  Patience(Runtime& runtime, Connection connection, Duration longest)
      : runtime_(runtime), timer_(runtime.call_at(runtime.now() + longest, [this, connection] {
          is_over_ = true;
          hang_up(*connection);
        })) {}
  ~Patience() { runtime_.cancel(timer_); }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

  asio::error_code of(const asio::error_code& error) const {
    return is_over_ ? asio::error_code(asio::error::timed_out) : error;
  }

 private:
  Runtime& runtime_;
  bool is_over_ = false;
  Runtime::Timer timer_;
};

Task<asio::error_code> hear(Runtime& runtime, Connection connection, Challenge* challenge) {
  const Patience patience(runtime, connection, longest_silence);
  const asio::mutable_buffer in(challenge, sizeof *challenge);
  asio::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  co_await asio::async_read(*connection, in, token);
  co_return patience.of(error);
}

}  // namespace

Duration longest_attempt(std::size_t addresses) {
  return addresses > 1 ? std::chrono::seconds(1) : std::chrono::seconds(4);
}

Task<asio::error_code> dial(Runtime& runtime, Connection connection, tcp::endpoint where, Duration longest) {
  const Patience patience(runtime, connection, longest);
  asio::error_code error;
  open_socket(*connection, where.protocol(), error);
  auto token = asio::redirect_error(asio::use_awaitable, error);
  if (!error) co_await connection->async_connect(where, token);
  co_return patience.of(error);
}

std::string why_not(const tcp::endpoint& where, const asio::error_code& error) {
  const std::string why = error == asio::error::timed_out ? text("no answer in time") : error.message();
  return text(why, " (", way_to(where), ")");
}

bool is_of_the_network(const asio::error_code& error) {
  return error == asio::error::network_unreachable || error == asio::error::host_unreachable ||
         error == asio::error::timed_out;
}

Task<Answer> ask(Runtime& runtime, Connection connection, Token token, Greeting greeting, std::size_t most) {
  Answer answer;
  Challenge challenge;
  AnswerHead head;
  Task<asio::error_code> hearing = hear(runtime, connection, &challenge);
  answer.error = co_await std::move(hearing);
  answer.is_ours = answer.error || challenge.magic == expected_magic;
  if (answer.error || !answer.is_ours) co_return answer;
  const Conversation conversation = greeting.prove(token, challenge);
  const asio::const_buffer out(&greeting, sizeof greeting);
  const asio::mutable_buffer in(&head, sizeof head);
  auto or_error = asio::redirect_error(asio::use_awaitable, answer.error);
  co_await asio::async_write(*connection, out, or_error);
  if (!answer.error) co_await asio::async_read(*connection, in, or_error);
  if (answer.error) co_return answer;
  const std::size_t longest = head.status == 0 ? most : longest_error;
  answer.is_known = head.magic != expected_magic || head.status != unproven;
  answer.is_ours = head.magic == expected_magic && head.length <= longest &&
                   head.status <= static_cast<std::uint32_t>(ErrorKind::mismatch);
  if (!answer.is_ours) co_return answer;
  answer.status = head.status;
  answer.content.resize(head.length);
  const asio::mutable_buffer rest(answer.content.data(), answer.content.size());
  co_await asio::async_read(*connection, rest, or_error);
  if (!answer.error) answer.is_ours = proves(token, conversation, head, answer.content);
  co_return answer;
}

}  // namespace ripieno::rendezvous
