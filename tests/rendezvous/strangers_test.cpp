// Strangers who crowd a job's listening sockets: none keeps a rank away, and each is named where a rank is missing.
#include "ripieno/rendezvous/strangers.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "ripieno/core/descriptor.h"
#include "ripieno/rendezvous/door.h"
#include "tests/rendezvous/rendezvous_job.h"

namespace ripieno::rendezvous {
namespace {

/// Connections of another process, which stay open until the end of scope: more than this one may hold. They say
/// `words`, then nothing.
class Crowd {
 public:
  Crowd(const std::string& address, int connections, const std::string& words = {}) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(resolve(address).port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const Descriptor out(ends[0]), in(ends[1]);
    process_ = ::fork();
    if (process_ == 0) come(in.get(), to, connections, words);
    char ready = 0;
    EXPECT_EQ(::read(out.get(), &ready, 1), 1) << "could not make the connections";
  }
  ~Crowd() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

 private:
  /// In the process that was forked off: only system calls.
  [[noreturn]] static void come(int tell, const sockaddr_in& to, int connections, const std::string& words) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(tell, 3);
    ::close_range(4, ~0U, 0);
    ::signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < connections; ++i) {
      const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
      // A name of its own: the backlog may be full, and connect() would wait.
      if (connection < 0) ::_exit(1);
      if (words.empty()) ::fcntl(connection, F_SETFL, O_NONBLOCK);
      const int connected = ::connect(connection, reinterpret_cast<const sockaddr*>(&to), sizeof to);
      if (connected == 0 && !words.empty()) (void)!::write(connection, words.data(), words.size());
    }
    (void)!::write(3, "", 1);
    for (;;) ::pause();
  }

  pid_t process_ = 0;
};

std::string greeting_magic() {
  std::string bytes(sizeof expected_magic, '\0');
  std::memcpy(bytes.data(), &expected_magic, bytes.size());
  return bytes;
}

TEST(Strangers, TwoThousandSilentConnectionsDelayNobody) {
  Job job(3, std::chrono::seconds(10));  // 128 at a time, 5 s each, they would take 78 s
  std::vector<std::unique_ptr<Crowd>> crowds;
  for (int i = 0; i < 4; ++i) crowds.push_back(std::make_unique<Crowd>(job.rendezvous.address(), 500));
  job.run();
  expect_mesh(job);
}

TEST(Strangers, HalfGreetingsDelayNobody) {
  Job job(3, std::chrono::seconds(10));
  const Crowd crowd(job.rendezvous.address(), 500, greeting_magic() + "and no more");
  job.run();
  expect_mesh(job);
}

TEST(Strangers, AreNamedWhereARankIsMissing) {
  Job job(2, std::chrono::seconds(2));
  job.workers.resize(1);
  const Crowd silent(job.rendezvous.address(), 300), http(job.rendezvous.address(), 2, "GET / HTTP/1.1\r\n\r\n");
  job.run();
  const std::string missing =
      "rank 1 of 2 has not come to the rendezvous at " + job.rendezvous.address() + " within 2 s";
  EXPECT_TRUE(job.served.error.starts_with(missing + "; 30")) << job.served.error;  // the last may still have time
  EXPECT_NE(job.served.error.find(" connections were closed that no rank had made: 127.0.0.1 (2 HTTP, "),
            std::string::npos)
      << job.served.error;
  EXPECT_TRUE(job.served.error.ends_with(" silent): keep them away from this port")) << job.served.error;
  EXPECT_EQ(job.outcomes[0].error, job.served.error);
}

/// A door that puts out a rank before, and after it has challenged and heard it, and then answers.
TEST(Strangers, ARankThatIsPutOutComesAgain) {
  const auto runtime = real_runtime(0);
  tcp::acceptor acceptor(runtime->context(), resolve("127.0.0.1:0"));
  Meeting meeting;
  meeting.token = random_token();
  meeting.address = to_string(acceptor.local_endpoint());
  meeting.timeout = std::chrono::seconds(30);
  int came = 0;
  auto pretend = [&]() -> Task<> {
    for (const int hears : {0, 1, 2, 3}) {
      tcp::socket socket(runtime->context());
      co_await acceptor.async_accept(socket, asio::use_awaitable);
      ++came;
      Challenge challenge;
      Greeting greeting;
      const asio::const_buffer first(&challenge, sizeof challenge);
      const asio::mutable_buffer in(&greeting, sizeof greeting);
      if (hears > 0) co_await asio::async_write(socket, first, asio::use_awaitable);
      if (hears > 1) co_await asio::async_read(socket, in, asio::use_awaitable);
      const AddressField field = address_field("127.0.0.1:1");
      const std::vector<std::byte> bytes = answer(parse_token(meeting.token), {challenge.nonce, greeting.nonce}, 0,
                                                  std::string(field.data(), field.size()));
      const asio::const_buffer out(bytes.data(), bytes.size());
      if (hears > 2) co_await asio::async_write(socket, out, asio::use_awaitable);
    }
  };
  Outcome outcome;
  runtime->spawn("door", pretend());
  runtime->spawn("worker", attempt(runtime.get(), meeting, &outcome));
  runtime->run();
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(came, 4);
}

TEST(Strangers, ADoorThatPutsOutEverybodyIsNamedWithoutATokenOrARank) {
  const auto runtime = real_runtime(0);
  tcp::acceptor acceptor(runtime->context(), resolve("127.0.0.1:0"));
  Meeting meeting;
  meeting.token = random_token();
  meeting.address = to_string(acceptor.local_endpoint());
  meeting.timeout = std::chrono::milliseconds(150);
  auto pretend = [&]() -> Task<> {
    for (int i = 0; i < 3; ++i) {  // after 0, 100 and 200 ms
      tcp::socket socket(runtime->context());
      co_await acceptor.async_accept(socket, asio::use_awaitable);
    }
  };
  Outcome outcome;
  runtime->spawn("door", pretend());
  runtime->spawn("worker", attempt(runtime.get(), meeting, &outcome));
  runtime->run();
  EXPECT_EQ(outcome.error, "rank 0: the rendezvous at " + meeting.address +
                               " has closed 3 connections unanswered (End of file) within 0.15 s: it is no rendezvous, "
                               "or strangers crowd it");
}

/// A door, and guests of it that the test plays, which end when it does.
struct AtADoor {
  AtADoor() : runtime(real_runtime(0)), door(std::make_shared<Door>(*runtime, resolve("127.0.0.1:0"))) {
    door->open(token, [this](Connection connection, const Greeting&, const Conversation&) {
      hang_up(*connection);
      ++guests;
    });
  }
  ~AtADoor() { door->close(); }

  bool holds_within(std::chrono::seconds limit, const std::function<bool()>& what) {
    const Duration end = runtime->now() + limit;
    auto look = [this, end, what]() -> Task<> {
      while (!what() && runtime->now() < end) co_await runtime->sleep(std::chrono::milliseconds(1));
    };
    runtime->spawn("look", look());
    runtime->run();
    return what();
  }

  const Token token = parse_token(random_token());
  std::unique_ptr<Runtime> runtime;
  std::shared_ptr<Door> door;
  int guests = 0;
};

/// Connects from `from`.
std::unique_ptr<tcp::socket> guest_from(AtADoor& at, const std::string& from) {
  auto guest = std::make_unique<tcp::socket>(at.runtime->context(), resolve(from + ":0"));
  guest->connect(at.door->endpoint());
  return guest;
}

bool is_put_out(tcp::socket& guest) {
  asio::error_code error;
  std::array<std::byte, 2 * sizeof(Challenge)> bytes{};
  guest.non_blocking(true);
  while (!error) guest.read_some(asio::buffer(bytes), error);
  return error != asio::error::would_block;
}

TEST(Strangers, OneAddressDoesNotPutOutAnother) {
  AtADoor at;
  const auto other = guest_from(at, "127.0.0.2");  // the oldest
  std::vector<std::unique_ptr<tcp::socket>> crowd;
  for (int i = 0; i < 150; ++i) crowd.push_back(guest_from(at, "127.0.0.3"));
  auto put_out = [&] { return std::count_if(crowd.begin(), crowd.end(), [](auto& one) { return is_put_out(*one); }); };
  EXPECT_TRUE(at.holds_within(std::chrono::seconds(20), [&] { return put_out() >= 150 - 64; }));
  EXPECT_FALSE(is_put_out(*crowd.back()));  // one of the younger half
  EXPECT_FALSE(is_put_out(*other));
}

TEST(Strangers, WhatNoGreetingBeginsWithIsPutOutAtOnce) {
  AtADoor at;
  for (const char* said : {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02", "SSH-2.0-OpenSSH_9.2", "RIPN0001", "x"}) {
    const auto guest = guest_from(at, "127.0.0.1");
    asio::write(*guest, asio::buffer(said, std::strlen(said)));
    EXPECT_TRUE(at.holds_within(std::chrono::seconds(4), [&] { return is_put_out(*guest); })) << said;
  }
  const auto begins = guest_from(at, "127.0.0.1");
  asio::write(*begins, asio::buffer(greeting_magic()));
  const auto gone = guest_from(at, "127.0.0.1");
  gone->set_option(asio::socket_base::linger(true, 0));  // reset
  gone->close();
  EXPECT_TRUE(
      at.holds_within(std::chrono::seconds(4), [&] { return is_put_out(*begins) || !at.door->remark().empty(); }));
}

rlim_t open_descriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<rlim_t>(std::distance(begin(open), end(open)));
}

/// This process may have `more` descriptors besides the open ones, until the end of scope.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t more) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit few = before_;  // of the highest number
    few.rlim_cur = 0;
    for (rlim_t free = 0; free < more || ::fcntl(static_cast<int>(few.rlim_cur), F_GETFD) >= 0; ++few.rlim_cur)
      free += ::fcntl(static_cast<int>(few.rlim_cur), F_GETFD) < 0 ? 1 : 0;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST(Strangers, WhereDescriptorsRunOutTheOldestMakesRoom) {
  AtADoor at;
  const rlim_t before = open_descriptors();
  const auto rank = guest_from(at, "127.0.0.1");
  {
    const Crowd crowd(to_string(at.door->endpoint()), 60);
    const auto late = guest_from(at, "127.0.0.1");
    Challenge challenge;
    {
      const FewDescriptors few(8);
      ASSERT_TRUE(at.holds_within(std::chrono::seconds(20), [&] { return late->available() == sizeof challenge; }));
    }
    EXPECT_TRUE(is_put_out(*rank));  // UndefinedBehaviorSanitizer needs descriptors to look at an error_code
    asio::read(*late, asio::buffer(&challenge, sizeof challenge));  // accepted, though the last of all
    Greeting greeting;
    greeting.prove(at.token, challenge);
    asio::write(*late, asio::buffer(&greeting, sizeof greeting));
    EXPECT_TRUE(at.holds_within(std::chrono::seconds(20), [&] { return at.guests == 1; }));
  }
  EXPECT_TRUE(at.holds_within(std::chrono::seconds(20), [&] { return open_descriptors() <= before + 1; }));
}

TEST(Strangers, WhereThereIsNoDescriptorAtAllTheErrorSaysSo) {
  AtADoor at;
  const auto rank = guest_from(at, "127.0.0.1");
  {
    const FewDescriptors none(0);
    EXPECT_TRUE(at.holds_within(std::chrono::seconds(20), [&] { return !at.door->remark().empty(); }));
    EXPECT_EQ(at.door->remark(), "; some connections could not be accepted: Too many open files");
  }
  std::array<std::byte, 1> first{};
  std::size_t read = 0;
  rank->async_read_some(asio::buffer(first), [&](asio::error_code, std::size_t bytes) { read = bytes; });
  EXPECT_TRUE(at.holds_within(std::chrono::seconds(20), [&] { return read == 1; }));  // it goes on
}

TEST(Strangers, WhatTheySayHasAName) {
  const std::string magic = greeting_magic();
  const std::map<std::string, std::string> names{{"", "silent"},
                                                 {"GET / HT", "HTTP"},
                                                 {"POST /", "HTTP"},
                                                 {"PRI * HTTP/2.0", "HTTP"},
                                                 {"\x16\x03\x01", "TLS"},
                                                 {"SSH-2.0-x", "SSH"},
                                                 {magic.substr(0, 3), "part of a greeting"},
                                                 {magic + "more", "part of a greeting"},
                                                 {magic + std::string(sizeof(Greeting) - 8, 'x'), "another token"},
                                                 {magic.substr(0, 4) + "1000", "another version of Ripieno"},
                                                 {"hello, is there anybody", "'hello, i'"},
                                                 {"\x01\x02\xff", "0x0102ff"}};
  for (const auto& [said, name] : names) EXPECT_EQ(what_was_said(std::as_bytes(std::span(said))), name) << said;
}

TEST(Strangers, AreCountedInBoundedMemory) {
  Strangers strangers;
  EXPECT_EQ(strangers.remark(), "");
  for (unsigned i = 0; i < 1000; ++i) strangers.add(asio::ip::make_address_v4(0x0A000000 + i), text("'", i, "'"));
  EXPECT_LT(strangers.remark().size(), 1000u);
  EXPECT_NE(strangers.remark().find("1000 connections"), std::string::npos) << strangers.remark();
  EXPECT_NE(strangers.remark().find("other addresses"), std::string::npos) << strangers.remark();
}

}  // namespace
}  // namespace ripieno::rendezvous
