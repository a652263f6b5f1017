#include "ripieno/rendezvous/meet.h"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/redirect_error.hpp>
#include <asio/write.hpp>
#include <set>
#include <utility>

#include "ripieno/core/async.h"
#include "ripieno/core/error.h"
#include "ripieno/rendezvous/address.h"
#include "ripieno/rendezvous/guest.h"
#include "ripieno/rendezvous/interfaces.h"

namespace ripieno::rendezvous {
namespace {

using asio::ip::tcp;
using Sockets = std::vector<std::optional<tcp::socket>>;

/// The rendezvous names missing ranks, so a worker waits a little longer than the rendezvous does.
constexpr auto margin = std::chrono::seconds(5);
/// Connections to ranks that a rank makes at once.
constexpr int lanes = 32;
constexpr std::size_t longest_number = 10;  // of a rank, in digits
constexpr auto without_a_way =
    std::chrono::seconds(3);  // a network may still come up; if it does not, the error comes soon
constexpr auto without_a_name = std::chrono::seconds(10);  // a host's name may be registered after its first process
constexpr auto until_said = std::chrono::seconds(10);      // why the rendezvous cannot be reached yet

struct Mesh {
  Mesh(Runtime& runtime, const Meeting& meeting)
      : runtime(runtime),
        meeting(meeting),
        token(meeting.invitation ? Token{} : parse_token(meeting.token)),
        door(std::make_shared<Door>(runtime, resolve(with_port(meeting.listen, 0)))),
        found(meeting.world_size),
        deadline(runtime.now() + meeting.timeout),
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

  void check() const {
    if (over) std::rethrow_exception(over);
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
  Door::Guest admits;  ///< a higher rank
  std::vector<Connection> found;
  int connected = 0;
  const Duration deadline;  ///< until which the rendezvous must have been found
  std::string unanswered;   ///< what became of the last connection that the rendezvous did not answer
  Event complete;
  bool has_said = false;          ///< why it waits
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

/// What keeps this worker from the rendezvous.
struct Obstacle {
  explicit Obstacle(bool is_known) : is_network(is_known), is_name(is_known) {}

  /// The address of no host.
  void has_no_host(const Error& error) {
    add(error.what());
    is_network = is_refusal = false;
  }
  void is_unreached(const std::string& address, const tcp::endpoint& where, const asio::error_code& error) {
    add(text("the rendezvous at ", address, " cannot be reached: ", why_not(where, error)));
    is_network = is_network && is_of_the_network(error);
    is_refusal = is_refusal && error == asio::error::connection_refused;
    is_name = false;
  }
  void add(const std::string& more) { why += (why.empty() ? "" : "; ") + more; }

  bool is_network, is_name, is_refusal = true;  ///< each: nothing else
  std::string why;
};

/// Connects to the rendezvous, which may start later than this worker; an invitation may be of an earlier job and
/// replaced.
Task<Found> find_rendezvous(std::shared_ptr<Mesh> mesh) {
  const Meeting& meeting = mesh->meeting;
  const Duration start = mesh->runtime.now();
  for (;;) {
    mesh->check();
    const std::vector<std::string> known = ways(mesh);
    Obstacle obstacle(!known.empty());
    for (const std::string& address : known) {
      tcp::endpoint where;
      try {
        where = resolve(address);
      } catch (const Error& error) {
        obstacle.has_no_host(error);
        continue;
      }
      Found found{std::make_unique<Dialling>(mesh), where};
      Task<asio::error_code> dialling =
          dial(mesh->runtime, found.dialling->connection(), where, longest_attempt(known.size()));
      const asio::error_code error = co_await std::move(dialling);
      mesh->check();
      if (!error) co_return found;
      obstacle.is_unreached(address, where, error);
    }
    const Duration now = mesh->runtime.now();
    if (obstacle.is_refusal && !mesh->unanswered.empty())
      fail(ErrorKind::network, mesh->me(), mesh->unanswered,
           " and has ended: the job has begun, or failed, without this rank");
    if (known.empty() && now >= mesh->deadline) {
      fail(ErrorKind::peer, mesh->me(), "rank 0 has not come within ", seconds(meeting.timeout),
           " s: it would have left ", meeting.invitation->name(),
           ". Is that, and transport.kind, the same for all ranks?");
    }
    const bool no_way =
        (obstacle.is_network && now >= start + without_a_way) || (obstacle.is_name && now >= start + without_a_name);
    if (no_way || now >= mesh->deadline) fail(ErrorKind::network, mesh->me(), obstacle.why);
    if (meeting.on_wait && !obstacle.why.empty() && !mesh->has_said && now >= start + until_said) {
      mesh->has_said = true;
      meeting.on_wait(text(mesh->me(), obstacle.why, "; waits for it for ", seconds(meeting.timeout), " s in all"));
    }
    co_await mesh->runtime.sleep(between_attempts);
  }
}

/// What the rendezvous at `*where` answers. It may put out this worker unheard, which then comes again.
Task<Answer> ask_rendezvous(std::shared_ptr<Mesh> mesh, tcp::endpoint* where) {
  const Meeting& meeting = mesh->meeting;
  for (int connections = 1;; ++connections) {
    Task<Found> finding = find_rendezvous(mesh);
    const Found found = co_await std::move(finding);
    *where = found.where;
    mesh->door->open(mesh->token, mesh->admits);
    const Connection connection = found.dialling->connection();
    tcp::endpoint here = mesh->door->endpoint();
    asio::error_code error;
    if (here.address().is_unspecified()) here.address(connection->local_endpoint(error).address());
    const Greeting hello = greeting(*mesh, to_string(here));
    Task<Answer> asking = ask(mesh->runtime, connection, mesh->token, hello, mesh->found.size() * sizeof(AddressField));
    const Answer answer = co_await std::move(asking);
    mesh->check();
    if (!answer.error) co_return answer;
    mesh->unanswered =
        text("the rendezvous at ", to_string(found.where), " has closed ", connections,
             connections > 1 ? " connections" : " connection", " unanswered (", answer.error.message(), ")");
    if (mesh->runtime.now() >= mesh->deadline) {
      fail(ErrorKind::network, mesh->me(), mesh->unanswered, " within ", seconds(meeting.timeout),
           " s: it is no rendezvous, or strangers crowd it");
    }
    co_await mesh->runtime.sleep(between_attempts);
  }
}

/// Asks the rendezvous where each rank listens.
Task<std::vector<tcp::endpoint>> addresses(std::shared_ptr<Mesh> mesh) {
  tcp::endpoint where;
  Task<Answer> asking = ask_rendezvous(mesh, &where);
  const Answer answer = co_await std::move(asking);
  if (!answer.is_known) {
    fail(ErrorKind::network, mesh->me(), "the rendezvous at ", to_string(where),
         " is of a job with another token: start all workers of a job with one token");
  }
  if (!answer.is_ours || (answer.status == 0 && answer.content.size() != mesh->found.size() * sizeof(AddressField))) {
    fail(ErrorKind::network, mesh->me(), "what answers at ", to_string(where),
         " is not the rendezvous of this version, or does not know the job's token");
  }
  if (answer.status != 0) throw Error(static_cast<ErrorKind>(answer.status), answer.content);
  std::vector<tcp::endpoint> endpoints;
  const bool is_here = is_of_this_host(where.address());
  for (std::size_t rank = 0; rank < mesh->found.size(); ++rank) {
    AddressField field;
    answer.content.copy(field.data(), field.size(), rank * field.size());
    tcp::endpoint listens = resolve(address_of(field).value_or(""));
    // Whoever came to the rendezvous along the loopback is on its host.
    if (listens.address().is_loopback() && !is_here) listens.address(where.address());
    endpoints.push_back(listens);
  }
  co_return endpoints;
}

/// Connects to a lower rank, and again if its door puts this one out unheard. Returns false then.
Task<bool> try_to_connect(std::shared_ptr<Mesh> mesh, int peer, tcp::endpoint where) {
  const Dialling dialling(mesh);
  const Connection& connection = dialling.connection();
  Task<asio::error_code> reaching = dial(mesh->runtime, connection, where, longest_attempt(1));
  const asio::error_code error = co_await std::move(reaching);
  mesh->check();
  if (error) {
    fail(is_of_the_network(error) ? ErrorKind::network : ErrorKind::peer, mesh->me(), "cannot connect to rank ", peer,
         " at ", to_string(where), ": ", why_not(where, error),
         is_of_the_network(error) ? ". Let transport.interface name one by which all hosts reach each other" : "");
  }
  Task<Answer> asking = ask(mesh->runtime, connection, mesh->token, greeting(*mesh, ""), longest_number);
  const Answer answer = co_await std::move(asking);
  mesh->check();
  if (answer.error) co_return false;
  if (!answer.is_ours || answer.status != 0 || answer.content != std::to_string(peer)) {
    fail(ErrorKind::peer, mesh->me(), "what answers at ", to_string(where), " is not rank ", peer, " any more");
  }
  mesh->place(peer, connection);
  co_return true;
}

/// One of several that connect to the lower ranks, which of them each.
Task<> connect_some(std::shared_ptr<Mesh> mesh, std::vector<tcp::endpoint> endpoints) {
  while (mesh->next < mesh->meeting.rank) {
    const int peer = mesh->next++;
    for (bool is_connected = false; !is_connected;) {
      Task<bool> connecting = try_to_connect(mesh, peer, endpoints[static_cast<std::size_t>(peer)]);
      is_connected = co_await std::move(connecting);
      if (!is_connected) co_await mesh->runtime.sleep(between_attempts);
      mesh->check();
    }
  }
}

/// Answers a higher rank that has connected.
Task<> admit(std::shared_ptr<Mesh> mesh, Connection connection, Greeting greeting, Conversation conversation) {
  const Meeting& meeting = mesh->meeting;
  const int rank = static_cast<int>(greeting.rank);
  const bool fits = greeting.world_size == mesh->found.size() && greeting.digest == meeting.digest &&
                    rank > meeting.rank && rank < meeting.world_size && !mesh->found[rank];
  const std::uint32_t status = fits ? 0 : static_cast<std::uint32_t>(ErrorKind::mismatch);
  const std::vector<std::byte> bytes = answer(mesh->token, conversation, status, std::to_string(meeting.rank));
  const asio::const_buffer buffer(bytes.data(), bytes.size());
  asio::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  co_await asio::async_write(*connection, buffer, token);
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
  mesh->admits = [weak = std::weak_ptr<Mesh>(mesh)](Connection connection, const Greeting& greeting,
                                                    const Conversation& conversation) {
    if (auto m = weak.lock())
      asio::co_spawn(m->runtime.context(), admit(m, connection, greeting, conversation), asio::detached);
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
  auto incomplete = [weak = std::weak_ptr<Mesh>(mesh)] {
    if (auto m = weak.lock(); m && !m->complete.is_set()) {
      m->give_up(ErrorKind::peer, text("no connection within ", seconds(m->meeting.timeout), " s with rank ",
                                       m->missing(), m->door->remark()));
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

}  // namespace ripieno::rendezvous
