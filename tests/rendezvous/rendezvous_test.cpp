#include "ripieno/rendezvous/rendezvous.h"

#include <cstddef>
#include <cstring>
#include <map>

#include "tests/rendezvous/rendezvous_job.h"

namespace ripieno::rendezvous {
namespace {

/// The rendezvous and the first `workers` end with this error.
void expect_all_fail(const Job& job, std::size_t workers, ErrorKind kind, const std::string& message) {
  EXPECT_EQ(job.served.error, message);
  EXPECT_EQ(job.served.kind, kind);
  for (std::size_t i = 0; i < workers; ++i) {
    EXPECT_EQ(job.outcomes[i].error, message);
    EXPECT_EQ(job.outcomes[i].kind, kind);
  }
}

void expect_all_fail(const Job& job, ErrorKind kind, const std::string& message) {
  expect_all_fail(job, job.outcomes.size(), kind, message);
}

TEST(Rendezvous, WorkersMeet) {
  for (const int world_size : {1, 2, 3, 4, 9}) {
    Job job(world_size);
    job.run();
    expect_mesh(job);
  }
}

std::vector<std::byte> bytes_of(const Greeting& greeting) {
  std::vector<std::byte> bytes(sizeof greeting);
  std::memcpy(bytes.data(), &greeting, sizeof greeting);
  return bytes;
}

std::vector<std::byte> garbage(const Challenge&) { return std::vector<std::byte>(100'000, std::byte{'x'}); }

/// A worker's greeting, with its proof.
Words greeting(const std::string& token, std::uint32_t rank, std::uint32_t world_size) {
  return [=](const Challenge& challenge) {
    Greeting greeting;
    greeting.rank = rank;
    greeting.world_size = world_size;
    greeting.digest = 0x1234;
    greeting.address = address_field("127.0.0.1:1");
    greeting.prove(parse_token(token), challenge);
    return bytes_of(greeting);
  };
}

TEST(Rendezvous, StrangersArePutOutAndDisturbNobody) {
  Job job(4);
  const Words good = greeting(job.token, 3, 4);
  const std::map<std::string, Words> strangers{
      {"another token", greeting(random_token(), 3, 4)},
      {"another magic",
       [&](const Challenge& challenge) {
         auto bytes = good(challenge);
         bytes[0] ^= std::byte{1};
         return bytes;
       }},
      {"another rank than was proved",
       [&](const Challenge& challenge) {
         auto bytes = good(challenge);
         bytes[offsetof(Greeting, rank)] ^= std::byte{1};
         return bytes;
       }},
      {"what somebody else said before", [overheard = good({})](const Challenge&) { return overheard; }},
      {"garbage", garbage},
      {"silence", [](const Challenge&) { return std::vector<std::byte>(); }}};
  std::map<std::string, bool> out;
  for (const auto& [name, words] : strangers)
    job.runtime->spawn(name, intrude(job.runtime.get(), job.rendezvous.address(), words, &out[name]));
  job.run();
  expect_mesh(job);
  for (const auto& [name, was_put_out] : out) EXPECT_TRUE(was_put_out) << name;
}

/// A door of somebody who does not know the token, but says what a door does.
TEST(Rendezvous, ADoorThatDoesNotKnowTheTokenIsNotBelieved) {
  for (const bool knows : {false, true}) {
    const auto runtime = real_runtime(0);
    const std::string token = random_token();
    Meeting meeting;
    meeting.token = token;
    meeting.world_size = 2;
    meeting.timeout = std::chrono::seconds(10);
    asio::ip::tcp::acceptor acceptor(runtime->context(), resolve("127.0.0.1:0"));
    meeting.address = to_string(acceptor.local_endpoint());
    auto pretend = [&](std::string its_token) -> Task<> {
      tcp::socket socket(runtime->context());
      co_await acceptor.async_accept(socket, asio::use_awaitable);
      Challenge challenge;
      Greeting greeting;
      const asio::const_buffer first(&challenge, sizeof challenge);
      const asio::mutable_buffer in(&greeting, sizeof greeting);
      co_await asio::async_write(socket, first, asio::use_awaitable);
      co_await asio::async_read(socket, in, asio::use_awaitable);
      EXPECT_TRUE(greeting.proves(parse_token(token), challenge));
      const std::vector<std::byte> bytes =
          answer(parse_token(its_token), {challenge.nonce, greeting.nonce}, 6, "the end of the world");
      const asio::const_buffer out(bytes.data(), bytes.size());
      co_await asio::async_write(socket, out, asio::use_awaitable);
    };
    Outcome outcome;
    runtime->spawn("door", pretend(knows ? token : random_token()));
    runtime->spawn("worker", attempt(runtime.get(), meeting, &outcome));
    runtime->run();
    EXPECT_NE(outcome.error.find(knows ? "the end of the world" : "does not know the job's token"), std::string::npos)
        << outcome.error;
  }
}

TEST(Rendezvous, AWorkerWithAnotherTokenIsToldSo) {
  Job job(2, std::chrono::milliseconds(500));
  job.workers[1].token = random_token();
  job.run();
  EXPECT_EQ(job.outcomes[1].error, "rank 1: the rendezvous at " + job.rendezvous.address() +
                                       " is of a job with another token: start all workers of a job with one token");
  EXPECT_EQ(job.outcomes[1].kind, ErrorKind::network);
  expect_all_fail(job, 1, ErrorKind::peer,
                  "rank 1 of 2 has not come to the rendezvous at " + job.rendezvous.address() +
                      " within 0.5 s; 1 connection was closed that no rank had made: 127.0.0.1 (1 another token): keep "
                      "them away from this port");
}

TEST(Rendezvous, GarbageAtAWorkersPortDisturbsNobody) {
  Job job(3);
  job.workers.pop_back();  // rank 2 is played by hand, and learns from the table where ranks 0 and 1 listen
  auto by_hand = [](Job* job) -> Task<> {
    const Words rank2 = greeting(job->token, 2, 3), rank77 = greeting(job->token, 77, 3);
    tcp::socket server(job->runtime->context());
    Task<Challenge> knocking = knock(&server, job->rendezvous.address());
    const Challenge challenge = co_await std::move(knocking);
    const std::vector<std::byte> said = rank2(challenge);
    const asio::const_buffer hello(said.data(), said.size());
    co_await asio::async_write(server, hello, asio::use_awaitable);
    AnswerHead answer;
    const asio::mutable_buffer head(&answer, sizeof answer);
    co_await asio::async_read(server, head, asio::use_awaitable);
    EXPECT_EQ(answer.status, 0u);
    std::vector<AddressField> table(3);
    const asio::mutable_buffer body(table.data(), table.size() * sizeof(AddressField));
    co_await asio::async_read(server, body, asio::use_awaitable);
    for (int peer = 0; peer < 2; ++peer) {
      const std::string address = address_of(table[peer]).value();
      bool out[2] = {};
      co_await intrude(job->runtime.get(), address, garbage, &out[0]);
      co_await intrude(job->runtime.get(), address, rank77, &out[1]);  // knows the token, but cannot be
      EXPECT_TRUE(out[0]);
      EXPECT_TRUE(out[1]);
    }
    for (int peer = 0; peer < 2; ++peer) {
      tcp::socket socket(job->runtime->context());
      Task<Challenge> knocking_there = knock(&socket, address_of(table[peer]).value());
      const Challenge challenge_there = co_await std::move(knocking_there);
      const std::vector<std::byte> said_there = rank2(challenge_there);
      const asio::const_buffer hello_there(said_there.data(), said_there.size());
      co_await asio::async_write(socket, hello_there, asio::use_awaitable);
      co_await asio::async_read(socket, head, asio::use_awaitable);
      char who = 0;
      const asio::mutable_buffer rest(&who, 1);
      co_await asio::async_read(socket, rest, asio::use_awaitable);
      EXPECT_EQ(answer.length, 1u);
      EXPECT_EQ(who, '0' + peer);
    }
  };
  job.runtime->spawn("rank 2", by_hand(&job));
  job.run();
  for (const Outcome& outcome : job.outcomes) {
    ASSERT_EQ(outcome.error, "");
    EXPECT_TRUE(outcome.sockets[2]);
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
    Task<Challenge> knocking = knock(&server, job->rendezvous.address());
    const Challenge challenge = co_await std::move(knocking);
    const std::vector<std::byte> said = greeting(job->token, 1, 3)(challenge);
    const asio::const_buffer hello(said.data(), said.size());
    co_await asio::async_write(server, hello, asio::use_awaitable);
    for (int round = 0; round < 100; ++round)
      co_await job->runtime->sleep(std::chrono::milliseconds(2));  // rank 0 comes
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

}  // namespace
}  // namespace ripieno::rendezvous
