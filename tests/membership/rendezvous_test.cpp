// Workers and rendezvous are coroutines of one real runtime, over loopback.
#include "ripieno/membership/rendezvous.h"

#include <gtest/gtest.h>

#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/write.hpp>
#include <cstring>

#include "ripieno/core/async.h"
#include "ripieno/core/error.h"
#include "ripieno/membership/address.h"
#include "ripieno/membership/meet.h"

namespace ripieno::membership {
namespace {

using asio::ip::tcp;
using Sockets = std::vector<std::optional<tcp::socket>>;

struct Outcome {
  Sockets sockets;
  std::string error = "has not ended";
  std::optional<ErrorKind> kind;
};

Task<> attempt(Runtime* runtime, Meeting meeting, Outcome* outcome) {
  try {
    outcome->sockets = co_await meet(*runtime, meeting);
    outcome->error.clear();
  } catch (const Error& error) {
    outcome->error = error.what();
    outcome->kind = error.kind();
  }
}

Task<> attempt(Rendezvous* rendezvous, Outcome* outcome) {
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
void expect_mesh(Job& job) {
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

TEST(Rendezvous, WorkersMeet) {
  for (const int world_size : {1, 2, 3, 4, 9}) {
    Job job(world_size);
    job.run();
    expect_mesh(job);
  }
}

/// Connects to `address`, sends `bytes`, waits to be put out.
Task<> intrude(Runtime* runtime, std::string address, std::vector<std::byte> bytes, bool* put_out) {
  tcp::socket socket(runtime->context());
  const tcp::endpoint where = resolve(address);
  co_await socket.async_connect(where, asio::use_awaitable);
  const asio::const_buffer out(bytes.data(), bytes.size());
  asio::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  co_await asio::async_write(socket, out, token);
  char byte = 0;
  const asio::mutable_buffer in(&byte, 1);
  co_await asio::async_read(socket, in, token);
  *put_out = static_cast<bool>(error);
}

std::vector<std::byte> bytes_of(const Greeting& greeting) {
  std::vector<std::byte> bytes(sizeof greeting);
  std::memcpy(bytes.data(), &greeting, sizeof greeting);
  return bytes;
}

TEST(Rendezvous, StrangersArePutOutAndDisturbNobody) {
  Job job(4);
  Greeting wrong_token;
  wrong_token.world_size = 4;
  wrong_token.address = address_field("127.0.0.1:1");
  Greeting wrong_magic = wrong_token;
  wrong_magic.token = parse_token(job.token);
  wrong_magic.magic ^= 1;
  bool out[4] = {};
  const std::vector<std::byte> garbage(100'000, std::byte{'x'}), nothing;
  job.runtime->spawn("wrong token",
                     intrude(job.runtime.get(), job.rendezvous.address(), bytes_of(wrong_token), &out[0]));
  job.runtime->spawn("wrong magic",
                     intrude(job.runtime.get(), job.rendezvous.address(), bytes_of(wrong_magic), &out[1]));
  job.runtime->spawn("garbage", intrude(job.runtime.get(), job.rendezvous.address(), garbage, &out[2]));
  job.runtime->spawn("silence", intrude(job.runtime.get(), job.rendezvous.address(), nothing, &out[3]));
  job.run();
  expect_mesh(job);
  for (const bool one : out) EXPECT_TRUE(one);
}

TEST(Rendezvous, AWorkerWithAnotherTokenGetsNoAnswer) {
  Job job(2);
  job.workers.push_back(job.workers[1]);
  job.workers[2].token = random_token();
  job.run();
  EXPECT_EQ(job.served.error, "");
  EXPECT_EQ(job.outcomes[0].error, "");
  EXPECT_EQ(job.outcomes[1].error, "");
  EXPECT_EQ(job.outcomes[2].kind, ErrorKind::network);
  EXPECT_NE(job.outcomes[2].error.find("token"), std::string::npos) << job.outcomes[2].error;
}

TEST(Rendezvous, GarbageAtAWorkersPortDisturbsNobody) {
  Job job(3);
  job.workers.pop_back();  // rank 2 is played by hand, and learns from the table where ranks 0 and 1 listen
  auto by_hand = [](Job* job) -> Task<> {
    tcp::socket server(job->runtime->context());
    const tcp::endpoint where = resolve(job->rendezvous.address());
    co_await server.async_connect(where, asio::use_awaitable);
    Greeting greeting;
    greeting.token = parse_token(job->token);
    greeting.rank = 2;
    greeting.world_size = 3;
    greeting.digest = 0x1234;
    greeting.address = address_field("127.0.0.1:1");
    const asio::const_buffer hello(&greeting, sizeof greeting);
    co_await asio::async_write(server, hello, asio::use_awaitable);
    GreetingAnswer answer;
    const asio::mutable_buffer head(&answer, sizeof answer);
    co_await asio::async_read(server, head, asio::use_awaitable);
    EXPECT_EQ(answer.status, 0u);
    std::vector<AddressField> table(3);
    const asio::mutable_buffer body(table.data(), table.size() * sizeof(AddressField));
    co_await asio::async_read(server, body, asio::use_awaitable);
    for (int peer = 0; peer < 2; ++peer) {
      const std::string address = address_of(table[peer]).value();
      Greeting wrong = greeting;
      wrong.rank = 77;  // knows the token, but cannot be
      bool out[2] = {};
      const std::vector<std::byte> garbage(100'000, std::byte{'x'});
      co_await intrude(job->runtime.get(), address, garbage, &out[0]);
      co_await intrude(job->runtime.get(), address, bytes_of(wrong), &out[1]);
      EXPECT_TRUE(out[0]);
      EXPECT_TRUE(out[1]);
    }
    for (int peer = 0; peer < 2; ++peer) {
      tcp::socket socket(job->runtime->context());
      const tcp::endpoint there = resolve(address_of(table[peer]).value());
      co_await socket.async_connect(there, asio::use_awaitable);
      co_await asio::async_write(socket, hello, asio::use_awaitable);
      co_await asio::async_read(socket, head, asio::use_awaitable);
      EXPECT_EQ(answer.length, static_cast<std::uint32_t>(peer));
    }
  };
  job.runtime->spawn("rank 2", by_hand(&job));
  job.run();
  for (const Outcome& outcome : job.outcomes) {
    ASSERT_EQ(outcome.error, "");
    EXPECT_TRUE(outcome.sockets[2]);
  }
}

void expect_all_fail(const Job& job, ErrorKind kind, const std::string& message) {
  EXPECT_EQ(job.served.error, message);
  EXPECT_EQ(job.served.kind, kind);
  for (const Outcome& outcome : job.outcomes) {
    EXPECT_EQ(outcome.error, message);
    EXPECT_EQ(outcome.kind, kind);
  }
}

TEST(Rendezvous, AnotherRecipeIsNamed) {
  Job job(2);
  job.workers[1].digest = 0xBEEF;
  job.run();
  EXPECT_EQ(job.served.kind, ErrorKind::mismatch);
  EXPECT_NE(job.served.error.find("beef"), std::string::npos) << job.served.error;
  EXPECT_NE(job.served.error.find("1234"), std::string::npos) << job.served.error;
  EXPECT_NE(job.served.error.find("rank 1"), std::string::npos) << job.served.error;
  expect_all_fail(job, ErrorKind::mismatch, job.served.error);
}

TEST(Rendezvous, ARankTakenTwiceOrOutOfRangeIsNamed) {
  Job twice(3);
  twice.workers.erase(twice.workers.begin());
  twice.workers[1].rank = 1;
  twice.run();
  expect_all_fail(twice, ErrorKind::mismatch, "two workers came as rank 1");

  Job other_size(2);
  other_size.workers.resize(1);
  other_size.workers[0].world_size = 5;
  other_size.run();
  expect_all_fail(other_size, ErrorKind::mismatch,
                  "rank 0 was started for a world of 5, but this job's world size is 2");
}

TEST(Rendezvous, MissingRanksAreNamed) {
  Job job(4, std::chrono::seconds(2));
  const std::string address = job.rendezvous.address();
  job.workers.erase(job.workers.begin() + 2, job.workers.end());
  job.run();
  expect_all_fail(job, ErrorKind::peer,
                  "ranks 2, 3 of 4 have not come to the rendezvous at " + address + " within 2 s");
}

TEST(Rendezvous, AWorkerLostBeforeAllHaveComeIsNamed) {
  Job job(3);
  job.workers.resize(1);
  auto comes_and_goes = [](Job* job) -> Task<> {
    tcp::socket server(job->runtime->context());
    const tcp::endpoint where = resolve(job->rendezvous.address());
    co_await server.async_connect(where, asio::use_awaitable);
    Greeting greeting;
    greeting.token = parse_token(job->token);
    greeting.rank = 1;
    greeting.world_size = 3;
    greeting.digest = 0x1234;
    greeting.address = address_field("127.0.0.1:1");
    const asio::const_buffer hello(&greeting, sizeof greeting);
    co_await asio::async_write(server, hello, asio::use_awaitable);
  };
  job.runtime->spawn("rank 1", comes_and_goes(&job));
  job.run();
  expect_all_fail(job, ErrorKind::peer, "rank 1 was lost before all 3 workers had come to the rendezvous");
}

TEST(Rendezvous, AnAddressInUseIsAnError) {
  auto runtime = real_runtime(0);
  Rendezvous first(*runtime, "127.0.0.1:0", random_token(), 2);
  try {
    Rendezvous second(*runtime, first.address(), random_token(), 2);
    FAIL() << "two listen on " << first.address();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::network);
    EXPECT_NE(std::string(error.what()).find(first.address()), std::string::npos) << error.what();
  }
}

TEST(Rendezvous, ARendezvousThatIsNotThereIsAnError) {
  Job job(2, std::chrono::milliseconds(250));
  job.rendezvous.close();
  job.workers.resize(1);
  job.run();
  EXPECT_EQ(job.served.error, "");
  EXPECT_EQ(job.outcomes[0].kind, ErrorKind::network);
  EXPECT_NE(job.outcomes[0].error.find("cannot be reached"), std::string::npos) << job.outcomes[0].error;
}

TEST(Rendezvous, TokensAreRandomAndChecked) {
  EXPECT_NE(random_token(), random_token());
  EXPECT_EQ(random_token().size(), 64u);
  EXPECT_NE(parse_token(random_token()), Token{});
  EXPECT_THROW(parse_token("abc"), Error);
  EXPECT_THROW(parse_token(std::string(64, 'g')), Error);
}

TEST(Address, IsParsed) {
  EXPECT_EQ(parse_address("127.0.0.1:80").host, "127.0.0.1");
  EXPECT_EQ(parse_address("127.0.0.1:80").port, 80);
  EXPECT_EQ(parse_address("[::1]:65535").host, "::1");
  for (const char* wrong : {"", "host", "host:", ":80", "host:65536", "host:-1", "host:8x", "::1:80"}) {
    EXPECT_THROW(parse_address(wrong), Error) << wrong;
  }
  EXPECT_THROW(resolve("no-such-host.invalid:1"), Error);
}

TEST(Rendezvous, APlaceToMeetWithoutAWayToItIsNamed) {
  try {
    check_route_to("255.255.255.255:80");
    FAIL() << "there is a way to everybody";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::network);
    EXPECT_NE(std::string(error.what()).find("cannot meet at 255.255.255.255:80"), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(check_route_to("127.0.0.1:80"));
}

}  // namespace
}  // namespace ripieno::membership
