// A job whose workers and rendezvous are coroutines of one real runtime, over loopback, and strangers who come to it.
#pragma once

#include <gtest/gtest.h>

#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/write.hpp>
#include <functional>

#include "ripieno/core/async.h"
#include "ripieno/core/error.h"
#include "ripieno/rendezvous/address.h"
#include "ripieno/rendezvous/meet.h"
#include "ripieno/rendezvous/rendezvous.h"

namespace ripieno::rendezvous {

using asio::ip::tcp;
using Sockets = std::vector<std::optional<tcp::socket>>;

struct Outcome {
  Sockets sockets;
  std::string error = "has not ended";
  std::optional<ErrorKind> kind;
};

inline Task<> attempt(Runtime* runtime, Meeting meeting, Outcome* outcome) {
  try {
    outcome->sockets = co_await meet(*runtime, meeting);
    outcome->error.clear();
  } catch (const Error& error) {
    outcome->error = error.what();
    outcome->kind = error.kind();
  }
}

inline Task<> attempt(Rendezvous* rendezvous, Outcome* outcome) {
  try {
    co_await rendezvous->serve();
    outcome->error.clear();
  } catch (const Error& error) {
    outcome->error = error.what();
    outcome->kind = error.kind();
  }
}

struct Job {
  explicit Job(int world_size, Duration timeout = std::chrono::seconds(30))
      : token(random_token()), rendezvous(*runtime, "127.0.0.1:0", token, world_size, timeout) {
    for (int rank = 0; rank < world_size; ++rank) {
      Meeting meeting;
      meeting.address = rendezvous.address();
      meeting.token = token;
      meeting.rank = rank;
      meeting.world_size = world_size;
      meeting.digest = 0x1234;
      meeting.timeout = timeout;
      workers.push_back(meeting);
    }
  }

  void run() {
    outcomes.resize(workers.size());
    runtime->spawn("rendezvous", attempt(&rendezvous, &served));
    for (std::size_t i = 0; i < workers.size(); ++i) {
      runtime->spawn(text("worker ", i), attempt(runtime.get(), workers[i], &outcomes[i]));
    }
    runtime->run();
  }

  std::unique_ptr<Runtime> runtime = real_runtime(0);
  std::string token;
  Rendezvous rendezvous;
  std::vector<Meeting> workers;
  Outcome served;
  std::vector<Outcome> outcomes;
};

/// Every pair of sockets belongs to the two ranks that it should: each sends its rank along each.
inline void expect_mesh(Job& job) {
  EXPECT_EQ(job.served.error, "");
  const int ranks = static_cast<int>(job.outcomes.size());
  for (int i = 0; i < ranks; ++i) {
    ASSERT_EQ(job.outcomes[i].error, "");
    ASSERT_EQ(job.outcomes[i].sockets.size(), static_cast<std::size_t>(ranks));
    EXPECT_FALSE(job.outcomes[i].sockets[i]);
    for (int j = 0; j < ranks; ++j) {
      if (i != j) asio::write(*job.outcomes[i].sockets[j], asio::buffer(&i, sizeof i));
    }
  }
  for (int i = 0; i < ranks; ++i) {
    for (int j = 0; j < ranks; ++j) {
      if (i == j) continue;
      int came = -1;
      asio::read(*job.outcomes[i].sockets[j], asio::buffer(&came, sizeof came));
      EXPECT_EQ(came, j);
    }
  }
}

/// Connects to a door and reads its challenge.
inline Task<Challenge> knock(tcp::socket* socket, std::string address) {
  const tcp::endpoint where = resolve(address);
  co_await socket->async_connect(where, asio::use_awaitable);
  Challenge challenge;
  const asio::mutable_buffer in(&challenge, sizeof challenge);
  co_await asio::async_read(*socket, in, asio::use_awaitable);
  EXPECT_EQ(challenge.magic, expected_magic);
  co_return challenge;
}

/// What to say to a door once it has said its challenge.
using Words = std::function<std::vector<std::byte>(const Challenge&)>;

/// Connects to `address`, says `words`, waits to be put out.
inline Task<> intrude(Runtime* runtime, std::string address, Words words, bool* put_out) {
  tcp::socket socket(runtime->context());
  Task<Challenge> knocking = knock(&socket, address);
  const Challenge challenge = co_await std::move(knocking);
  const std::vector<std::byte> bytes = words(challenge);
  const asio::const_buffer out(bytes.data(), bytes.size());
  asio::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  co_await asio::async_write(socket, out, token);
  std::vector<std::byte> answer(longest_error);  // none is so long
  const asio::mutable_buffer in(answer.data(), answer.size());
  co_await asio::async_read(socket, in, token);
  *put_out = static_cast<bool>(error);
}

}  // namespace ripieno::rendezvous
