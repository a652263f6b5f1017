#include "ripieno/membership/meet.h"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/write.hpp>
#include <set>
#include <utility>

#include "ripieno/core/async.h"
#include "ripieno/core/error.h"
#include "ripieno/membership/address.h"
#include "ripieno/membership/door.h"
#include "ripieno/membership/interfaces.h"

namespace ripieno::membership {
namespace {

using asio::ip::tcp;
using Sockets = std::vector<std::optional<tcp::socket>>;

/// The rendezvous names missing ranks, so a worker waits a little longer than the rendezvous does.
constexpr auto margin = std::chrono::seconds(5);
constexpr auto between_attempts = std::chrono::milliseconds(100);
/// Of an attempt to connect. A host that is up answers at once, with a connection or a refusal; lost packets are sent
/// again after 1 s and 3 s. Of several addresses, one that nobody answers at does not keep this worker from the others.
Duration longest_attempt(std::size_t addresses) {
  return addresses > 1 ? std::chrono::seconds(1) : std::chrono::seconds(4);
}
/// Connections to ranks that a rank makes at once.
constexpr int lanes = 32;
constexpr std::size_t longest_number = 10;  // of a rank, in digits
constexpr auto without_a_way =
    std::chrono::seconds(3);  // a network may still come up; if it does not, the error comes soon
constexpr auto without_a_name = std::chrono::seconds(10);  // a host's name may be registered after its first process

struct Mesh {
  Mesh(Runtime& runtime, const Meeting& meeting)
      : runtime(runtime),
        meeting(meeting),
        token(meeting.invitation ? Token{} : parse_token(meeting.token)),
        door(std::make_shared<Door>(runtime, resolve(with_port(meeting.listen, 0)))),
        found(meeting.world_size),
        complete(runtime) {}

  std::string me() const { return text("rank ", meeting.rank, ": "); }

  void place(int rank, Connection connection) {
    found[rank] = connection;
    if (++connected == meeting.world_size - 1) complete.set();
  }

  std::string missing() const {
    std::string ranks;
    for (int rank = 0; rank < meeting.world_size; ++rank) {
      if (rank != meeting.rank && !found[rank]) ranks += text(ranks.empty() ? "" : ", ", rank);
    }
    return ranks;
  }

  /// Ends all pending operations with this error.
  void give_up(ErrorKind kind, const std::string& why) {
    if (over) return;
    over = std::make_exception_ptr(Error(kind, me() + why));
    complete.fail(over);
    for (const Connection& connection : dialling) hang_up(*connection);
  }

  Runtime& runtime;
  const Meeting meeting;
  Token token;
  std::shared_ptr<Door> door;
  std::vector<Connection> found;
  int connected = 0;
  Event complete;
  bool told = false;              ///< whether this worker knows where the others are
  std::set<Connection> dialling;  ///< the connections being made, or used, now
  int next = 0;                   ///< the lowest rank to which no connection was begun
  std::exception_ptr over;
};

Greeting greeting(const Mesh& mesh, const std::string& address) {
  Greeting greeting;
  greeting.rank = static_cast<std::uint32_t>(mesh.meeting.rank);
  greeting.world_size = static_cast<std::uint32_t>(mesh.meeting.world_size);
  greeting.digest = mesh.meeting.digest;
  greeting.address = address_field(address);
  return greeting;
}

/// A connection that this worker makes, until the end of a scope: an error of the mesh closes it.
class Dialling {
 public:
  explicit Dialling(std::shared_ptr<Mesh> mesh)
      : mesh_(std::move(mesh)), connection_(std::make_shared<tcp::socket>(mesh_->runtime.context())) {
    mesh_->dialling.insert(connection_);
  }
  ~Dialling() { mesh_->dialling.erase(connection_); }
  Dialling(const Dialling&) = delete;

  const Connection& connection() const { return connection_; }

 private:
  std::shared_ptr<Mesh> mesh_;
  Connection connection_;
};

/// Connects to `where`, with one attempt of at most `longest`.
Task<asio::error_code> dial(std::shared_ptr<Mesh> mesh, Connection connection, tcp::endpoint where, Duration longest) {
  if (mesh->over) std::rethrow_exception(mesh->over);
  bool late = false;
  const Runtime::Timer timer = mesh->runtime.call_at(mesh->runtime.now() + longest, [connection, &late] {
    late = true;
    hang_up(*connection);
  });
  asio::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  co_await connection->async_connect(where, token);
  mesh->runtime.cancel(timer);
  if (mesh->over) std::rethrow_exception(mesh->over);
  co_return late ? asio::error_code(asio::error::timed_out) : error;
}

/// Why nobody was reached at `where`, and how this host tried.
std::string why_not(const tcp::endpoint& where, const asio::error_code& error) {
  const std::string why = error == asio::error::timed_out ? text("no answer in time") : error.message();
  return text(why, " (", way_to(where), ")");
}

/// Errors of networks between hosts, in place of a refusal: whoever shall answer may not be there yet.
bool is_of_the_network(const asio::error_code& error) {
  return error == asio::error::network_unreachable || error == asio::error::host_unreachable ||
         error == asio::error::timed_out;
}

/// What a door has answered.
struct Answer {
  asio::error_code error;  ///< set: the connection broke before the answer was whole
  bool is_ours = true;     ///< who answers is a door of this version and knows the token
  std::uint32_t status = 0;
  std::string content;
};

/// Greets the door at the other end, whose answer has `most` bytes of content, or fewer of an error.
Task<Answer> ask(std::shared_ptr<Mesh> mesh, Connection connection, Greeting greeting, std::size_t most) {
  Answer answer;
  Challenge challenge;
  AnswerHead head;
  const asio::mutable_buffer first(&challenge, sizeof challenge), second(&head, sizeof head);
  const asio::const_buffer out(&greeting, sizeof greeting);
  auto token = asio::redirect_error(asio::use_awaitable, answer.error);
  co_await asio::async_read(*connection, first, token);
  if (mesh->over) std::rethrow_exception(mesh->over);
  answer.is_ours = answer.error || challenge.magic == expected_magic;
  if (answer.error || !answer.is_ours) co_return answer;
  const Conversation conversation = greeting.prove(mesh->token, challenge);
  co_await asio::async_write(*connection, out, token);
  if (!answer.error) co_await asio::async_read(*connection, second, token);
  if (mesh->over) std::rethrow_exception(mesh->over);
  if (answer.error) co_return answer;
  const std::size_t longest = head.status == 0 ? most : longest_error;
  answer.is_ours = head.magic == expected_magic && head.length <= longest &&
                   head.status <= static_cast<std::uint32_t>(ErrorKind::mismatch);
  if (!answer.is_ours) co_return answer;
  answer.status = head.status;
  answer.content.resize(head.length);
  const asio::mutable_buffer rest(answer.content.data(), answer.content.size());
  co_await asio::async_read(*connection, rest, token);
  if (mesh->over) std::rethrow_exception(mesh->over);
  if (!answer.error) answer.is_ours = proves(mesh->token, conversation, head, answer.content);
  co_return answer;
}

/// The ways to the rendezvous that are known now; learns the token too. Empty: rank 0 has not said yet.
std::vector<std::string> ways(std::shared_ptr<Mesh> mesh) {
  const Meeting& meeting = mesh->meeting;
  if (!meeting.invitation) return {meeting.address};
  const std::optional<Invitation> found = meeting.invitation->find();
  if (!found) return {};
  mesh->token = parse_token(found->token);
  return found->addresses;
}

/// A connection to the rendezvous, and its address.
struct Found {
  std::unique_ptr<Dialling> dialling;
  tcp::endpoint where;
};

/// Connects to the rendezvous, which may start later than this worker; an invitation may be of an earlier job and
/// replaced.
Task<Found> find_rendezvous(std::shared_ptr<Mesh> mesh) {
  const Meeting& meeting = mesh->meeting;
  const Duration start = mesh->runtime.now(), deadline = start + meeting.timeout;
  for (;;) {
    const std::vector<std::string> known = ways(mesh);
    std::string why;
    bool is_network = !known.empty(), is_name = !known.empty();  // what keeps this worker from each
    for (const std::string& address : known) {
      tcp::endpoint where;
      try {
        where = resolve(address);
      } catch (const Error& error) {
        why += text(why.empty() ? "" : "; ", error.what());
        is_network = false;
        continue;
      }
      is_name = false;
      Found found{std::make_unique<Dialling>(mesh), where};
      Task<asio::error_code> dialling =
          dial(mesh, found.dialling->connection(), found.where, longest_attempt(known.size()));
      const asio::error_code error = co_await std::move(dialling);
      if (!error) co_return found;
      is_network = is_network && is_of_the_network(error);
      why += text(why.empty() ? "" : "; ", "the rendezvous at ", address,
                  " cannot be reached: ", why_not(found.where, error));
    }
    const Duration now = mesh->runtime.now();
    if (known.empty() && now >= deadline) {
      fail(ErrorKind::peer, mesh->me(), "rank 0 has not come within ", seconds(meeting.timeout),
           " s: it would have left ", meeting.invitation->name(), ". Is that the same on all hosts?");
    }
    const bool no_way = (is_network && now >= start + without_a_way) || (is_name && now >= start + without_a_name);
    if (no_way || now >= deadline) fail(ErrorKind::network, mesh->me(), why);
    co_await mesh->runtime.sleep(between_attempts);
  }
}

/// Asks the rendezvous where each rank listens.
Task<std::vector<tcp::endpoint>> addresses(std::shared_ptr<Mesh> mesh) {
  Task<Found> finding = find_rendezvous(mesh);
  const Found found = co_await std::move(finding);
  const tcp::endpoint where = found.where;
  const Connection connection = found.dialling->connection();
  tcp::endpoint here = mesh->door->endpoint();
  if (here.address().is_unspecified()) here.address(connection->local_endpoint().address());
  const Greeting hello = greeting(*mesh, to_string(here));
  const std::size_t table = mesh->found.size() * sizeof(AddressField);
  Task<Answer> asking = ask(mesh, connection, hello, table);
  const Answer answer = co_await std::move(asking);
  if (answer.error) {
    fail(ErrorKind::network, mesh->me(), "the rendezvous at ", to_string(where), " gave no answer (",
         answer.error.message(), "): the token is not that of its job, or the launcher has ended");
  }
  if (!answer.is_ours || (answer.status == 0 && answer.content.size() != table)) {
    fail(ErrorKind::network, mesh->me(), "what answers at ", to_string(where),
         " is not the rendezvous of this version, or does not know the job's token");
  }
  if (answer.status != 0) throw Error(static_cast<ErrorKind>(answer.status), answer.content);
  hang_up(*connection);
  std::vector<tcp::endpoint> endpoints;
  for (std::size_t rank = 0; rank < mesh->found.size(); ++rank) {
    AddressField field;
    answer.content.copy(field.data(), field.size(), rank * field.size());
    tcp::endpoint listens = resolve(address_of(field).value_or(""));
    // Whoever came to the rendezvous along the loopback is on its host.
    if (listens.address().is_loopback() && !where.address().is_loopback()) listens.address(where.address());
    endpoints.push_back(listens);
  }
  co_return endpoints;
}

Task<> connect_to(std::shared_ptr<Mesh> mesh, int peer, tcp::endpoint where) {
  const Dialling dialling(mesh);
  const Connection& connection = dialling.connection();
  asio::error_code error = co_await dial(mesh, connection, where, longest_attempt(1));
  if (error) {
    fail(is_of_the_network(error) ? ErrorKind::network : ErrorKind::peer, mesh->me(), "cannot connect to rank ", peer,
         " at ", to_string(where), ": ", why_not(where, error),
         is_of_the_network(error) ? ". Let transport.interface name one by which all hosts reach each other" : "");
  }
  const Greeting hello = greeting(*mesh, "");
  Task<Answer> asking = ask(mesh, connection, hello, longest_number);
  const Answer answer = co_await std::move(asking);
  if (answer.error) {
    fail(ErrorKind::peer, mesh->me(), "cannot connect to rank ", peer, " at ", to_string(where), ": ",
         answer.error.message());
  }
  if (!answer.is_ours || answer.status != 0 || answer.content != std::to_string(peer)) {
    fail(ErrorKind::peer, mesh->me(), "what answers at ", to_string(where), " is not rank ", peer, " any more");
  }
  mesh->place(peer, connection);
}

/// One of several that connect to the lower ranks, which of them each.
Task<> connect_some(std::shared_ptr<Mesh> mesh, std::vector<tcp::endpoint> endpoints) {
  while (mesh->next < mesh->meeting.rank) {
    const int peer = mesh->next++;
    Task<> connecting = connect_to(mesh, peer, endpoints[static_cast<std::size_t>(peer)]);
    co_await std::move(connecting);
  }
}

/// Answers a higher rank that has connected.
Task<> admit(std::shared_ptr<Mesh> mesh, Connection connection, Greeting greeting, Conversation conversation) {
  const Meeting& meeting = mesh->meeting;
  const int rank = static_cast<int>(greeting.rank);
  const bool fits = greeting.world_size == mesh->found.size() && greeting.digest == meeting.digest &&
                    rank > meeting.rank && rank < meeting.world_size && !mesh->found[rank];
  asio::error_code error;
  if (fits) {
    const std::vector<std::byte> bytes = answer(mesh->token, conversation, 0, std::to_string(meeting.rank));
    const asio::const_buffer buffer(bytes.data(), bytes.size());
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await asio::async_write(*connection, buffer, token);
  }
  if (!fits || error || mesh->over || mesh->found[rank]) {
    hang_up(*connection);
  } else {
    mesh->place(rank, connection);
  }
}

Task<> assemble(std::shared_ptr<Mesh> mesh) {
  Runtime& runtime = mesh->runtime;
  const Meeting& meeting = mesh->meeting;
  auto no_answer = [weak = std::weak_ptr<Mesh>(mesh)] {
    if (auto m = weak.lock(); m && !m->told) {
      m->give_up(ErrorKind::network,
                 text("the rendezvous ",
                      m->meeting.invitation ? "of " + m->meeting.invitation->name() : "at " + m->meeting.address,
                      " has not answered within ", seconds(m->meeting.timeout), " s"));
    }
  };
  const Runtime::Timer first = runtime.call_at(runtime.now() + meeting.timeout + margin, no_answer);
  std::vector<tcp::endpoint> endpoints;
  std::exception_ptr error;
  try {
    endpoints = co_await addresses(mesh);
  } catch (...) {
    error = std::current_exception();
  }
  mesh->told = true;
  runtime.cancel(first);
  if (error) std::rethrow_exception(error);

  auto guest = [weak = std::weak_ptr<Mesh>(mesh)](Connection connection, const Greeting& greeting,
                                                  const Conversation& conversation) {
    if (auto m = weak.lock())
      asio::co_spawn(m->runtime.context(), admit(m, connection, greeting, conversation), asio::detached);
  };
  mesh->door->open(mesh->token, guest);
  auto incomplete = [weak = std::weak_ptr<Mesh>(mesh)] {
    if (auto m = weak.lock(); m && !m->complete.is_set()) {
      m->give_up(ErrorKind::peer,
                 text("no connection within ", seconds(m->meeting.timeout), " s with rank ", m->missing()));
    }
  };
  const Runtime::Timer second = runtime.call_at(runtime.now() + meeting.timeout, incomplete);
  try {
    std::vector<Task<>> connecting;
    for (int lane = 0; lane < std::min(lanes, meeting.rank); ++lane)
      connecting.push_back(connect_some(mesh, endpoints));
    const auto end_others = [mesh](std::exception_ptr first) {
      mesh->over = first;
      for (const Connection& connection : mesh->dialling) hang_up(*connection);
    };
    Task<> together = all(runtime, std::move(connecting), end_others);
    co_await std::move(together);
    if (meeting.world_size > 1) co_await mesh->complete.wait();
  } catch (...) {
    error = std::current_exception();
  }
  runtime.cancel(second);
  if (error) std::rethrow_exception(error);
}

}  // namespace

Task<Sockets> meet(Runtime& runtime, Meeting meeting) {
  if (meeting.rank < 0 || meeting.rank >= meeting.world_size) {
    fail(ErrorKind::usage, "rank ", meeting.rank, " is not one of the ranks of a world of ", meeting.world_size);
  }
  auto mesh = std::make_shared<Mesh>(runtime, meeting);
  std::exception_ptr error;
  try {
    co_await assemble(mesh);
  } catch (...) {
    error = std::current_exception();
  }
  mesh->door->close();
  if (error) {
    mesh->over = error;
    for (const Connection& connection : mesh->dialling) hang_up(*connection);
    std::rethrow_exception(error);
  }
  Sockets sockets(meeting.world_size);
  for (int rank = 0; rank < meeting.world_size; ++rank) {
    if (mesh->found[rank]) sockets[rank].emplace(std::move(*mesh->found[rank]));
  }
  co_return sockets;
}

}  // namespace ripieno::membership
