#include "ripieno/rendezvous/rendezvous.h"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/write.hpp>
#include <map>
#include <optional>
#include <vector>

#include "ripieno/core/async.h"
#include "ripieno/core/error.h"
#include "ripieno/rendezvous/address.h"
#include "ripieno/rendezvous/door.h"
#include "ripieno/rendezvous/greeting.h"

namespace ripieno::rendezvous {

struct Rendezvous::State : std::enable_shared_from_this<State> {
  State(Runtime& runtime, const std::string& listen, const Token& token, int world_size, Duration timeout)
      : runtime(runtime),
        world_size(world_size),
        timeout(timeout),
        token(token),
        door(std::make_shared<Door>(runtime, resolve(listen))),
        decided(runtime) {}

  void come(Connection connection, const Greeting& greeting, const Conversation& conversation);
  void end(ErrorKind kind, const std::string& why);
  void expire();
  /// Why this worker does not fit the job; "" if it does.
  std::string unfit(const Greeting& greeting) const;
  /// To every guest: where all ranks are, or the error.
  std::pair<std::uint32_t, std::string> answer() const;

  struct Guest {
    Connection connection;
    Conversation conversation;
  };
  struct Seat {
    Guest guest;
    Greeting greeting;
  };

  Runtime& runtime;
  const int world_size;
  const Duration timeout;
  const Token token;
  std::shared_ptr<Door> door;
  std::map<int, Seat> seats;
  std::optional<Guest> refused;
  Event decided;
  std::optional<Error> error;
  std::optional<Runtime::Timer> timer;
  bool closed = false;
};

void Rendezvous::State::come(Connection connection, const Greeting& greeting, const Conversation& conversation) {
  if (decided.is_set()) return hang_up(*connection);
  if (const std::string why = unfit(greeting); !why.empty()) {
    refused = Guest{connection, conversation};
    return end(ErrorKind::mismatch, why);
  }
  const int rank = static_cast<int>(greeting.rank);
  seats.emplace(rank, Seat{{connection, conversation}, greeting});
  if (static_cast<int>(seats.size()) == world_size) {
    decided.set();
    return;
  }
  asio::co_spawn(runtime.context(), watch(shared_from_this(), rank), asio::detached);
  if (!timer) {
    auto expired = [weak = weak_from_this()] {
      if (auto state = weak.lock()) state->expire();
    };
    timer = runtime.call_at(runtime.now() + timeout, expired);
  }
}

std::string Rendezvous::State::unfit(const Greeting& greeting) const {
  if (greeting.world_size != static_cast<std::uint32_t>(world_size)) {
    return text("rank ", greeting.rank, " was started for a world of ", greeting.world_size,
                ", but this job's world size is ", world_size);
  }
  if (greeting.rank >= greeting.world_size) {
    return text("a worker came as rank ", greeting.rank, ", but this job has ranks 0 to ", world_size - 1);
  }
  if (seats.count(static_cast<int>(greeting.rank))) return text("two workers came as rank ", greeting.rank);
  if (!seats.empty() && seats.begin()->second.greeting.digest != greeting.digest) {
    const auto& [other, seat] = *seats.begin();
    return other_recipe(static_cast<int>(greeting.rank), greeting.digest, other, seat.greeting.digest);
  }
  if (const auto address = address_of(greeting.address); !address || address->empty()) {
    return text("rank ", greeting.rank, " did not say where it listens");
  }
  return {};
}

void Rendezvous::State::end(ErrorKind kind, const std::string& why) {
  if (decided.is_set()) return;
  error.emplace(kind, why);
  decided.set();
}

void Rendezvous::State::expire() {
  std::string missing;
  int count = 0;
  for (int rank = 0; rank < world_size; ++rank) {
    if (seats.count(rank)) continue;
    ++count;
    if (count <= 16) missing += text(count > 1 ? ", " : "", rank);
  }
  if (count > 16) missing += text(" and ", count - 16, " more");
  end(ErrorKind::peer, text(count > 1 ? "ranks " : "rank ", missing, " of ", world_size, count > 1 ? " have" : " has",
                            " not come to the rendezvous at ", to_string(door->endpoint()), " within ",
                            seconds(timeout), " s", door->remark()));
}

std::pair<std::uint32_t, std::string> Rendezvous::State::answer() const {
  if (error) return {static_cast<std::uint32_t>(error->kind()), std::string(error->what()).substr(0, longest_error)};
  std::string table;
  for (const auto& [rank, seat] : seats) table.append(seat.greeting.address.data(), seat.greeting.address.size());
  return {0, table};
}

Rendezvous::Rendezvous(Runtime& runtime, const std::string& listen, const std::string& token, int world_size,
                       Duration timeout)
    : state_(std::make_shared<State>(runtime, listen, parse_token(token), world_size, timeout)) {
  require(world_size > 0, "a world of ", world_size, " workers");
}

Rendezvous::~Rendezvous() { close(); }

std::string Rendezvous::address() const { return to_string(state_->door->endpoint()); }

Task<> Rendezvous::serve() { return serve(state_); }

void Rendezvous::close() {
  state_->closed = true;
  state_->decided.set();
  state_->door->close();
}

/// Notices if a worker that has come is lost before all have come.
Task<> Rendezvous::watch(std::shared_ptr<State> state, int rank) {
  const Connection connection = state->seats.at(rank).guest.connection;
  char byte = 0;
  const asio::mutable_buffer buffer(&byte, 1);
  asio::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  co_await asio::async_read(*connection, buffer, token);
  state->end(ErrorKind::peer,
             text("rank ", rank, " was lost before all ", state->world_size, " workers had come to the rendezvous"));
}

Task<> Rendezvous::serve(std::shared_ptr<State> state) {
  auto guest = [weak = std::weak_ptr<State>(state)](Connection connection, const Greeting& greeting,
                                                    const Conversation& conversation) {
    if (auto rendezvous = weak.lock()) rendezvous->come(connection, greeting, conversation);
  };
  if (!state->closed) state->door->open(state->token, guest);
  co_await state->decided.wait();
  state->door->close();
  if (state->timer) state->runtime.cancel(*state->timer);
  std::vector<State::Guest> guests;
  for (const auto& [rank, seat] : state->seats) guests.push_back(seat.guest);
  if (state->refused) guests.push_back(*state->refused);
  auto put_out = [guests] {
    for (const State::Guest& one : guests) hang_up(*one.connection);
  };
  if (!state->closed) {
    // A worker that does not read its answer delays the others for at most this long.
    const Runtime::Timer timer = state->runtime.call_at(state->runtime.now() + std::chrono::seconds(5), put_out);
    const auto [status, content] = state->answer();
    for (const State::Guest& one : guests) {
      const std::vector<std::byte> bytes = answer(state->token, one.conversation, status, content);
      const asio::const_buffer buffer(bytes.data(), bytes.size());
      asio::error_code ignored;
      auto token = asio::redirect_error(asio::use_awaitable, ignored);
      co_await asio::async_write(*one.connection, buffer, token);
    }
    state->runtime.cancel(timer);
  }
  put_out();
  if (state->error && !state->closed) throw *state->error;
}

}  // namespace ripieno::rendezvous
