// A rank's process is killed while a child of it keeps its connections open: its peers on this host notice at once.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ripieno/core/async.h"
#include "tests/transport/ranks.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;

constexpr std::size_t last_numbers = 1 << 20;  // 4 MiB: more than the kernel keeps of a connection at once

/// Rank 1: sends something, and is then killed by its own hand; a child that it forked before lives on, with all that
/// it had open.
Task<> send_and_die(Endpoint* e, std::size_t numbers, int child) {
  std::vector<float> out(numbers, 7);
  co_await e->send(0, message(numbers), const_bytes(out));
  const pid_t forked = ::fork();
  if (forked == 0) {
    ::pause();
    ::_exit(0);
  }
  if (::write(child, &forked, sizeof forked) != sizeof forked) ::_exit(98);
  ::kill(::getpid(), SIGKILL);
}

/// Rank 0: receives what rank 1 has sent, and one more, which never comes.
Task<> hear_the_end(Endpoint* e, std::size_t numbers, bool waits_before) {
  if (waits_before) co_await e->runtime().sleep(std::chrono::milliseconds(300));  // rank 1 has ended by then, or blocks
  std::vector<float> in(numbers);
  co_await e->receive(1, message(numbers), bytes(in));
  EXPECT_EQ(in, std::vector<float>(numbers, 7));
  co_await e->receive(1, message(10), Bytes(bytes(in)).first(40));
}

void close_all_but(int rank, const std::vector<std::vector<int>>& fds) {
  for (std::size_t other = 0; other < fds.size(); ++other) {
    for (const int fd : fds[other]) {
      if (static_cast<int>(other) != rank && fd >= 0) ::close(fd);
    }
  }
}

struct End {
  Outcome outcome;
  double seconds = 0;
};

/// How rank 0 ends, and how long after it has met rank 1.
End end_beside_a_child(bool shares, std::size_t numbers, bool waits_before) {
  const auto fds = connect_all(2);
  std::array<int, 2> child{};
  EXPECT_EQ(::pipe(child.data()), 0);
  SharedOptions options;
  options.shares = shares;
  const pid_t one = ::fork();
  if (one == 0) {
    close_all_but(1, fds);
    auto runtime = real_runtime(1);
    auto endpoint = make_endpoint(Way::shared, *runtime, 1, fds[1], options);
    runtime->spawn("rank 1", send_and_die(endpoint.get(), numbers, child[1]));
    runtime->run();
    ::_exit(99);
  }
  close_all_but(0, fds);
  End end;
  auto runtime = real_runtime(0);
  auto endpoint = make_endpoint(Way::shared, *runtime, 0, fds[0], options);
  EXPECT_EQ(endpoint->way(1), shares ? "shared memory" : "tcp");
  const Duration start = runtime->now();
  runtime->spawn("rank 0", hear_the_end(endpoint.get(), numbers, waits_before));
  try {
    runtime->run();
  } catch (const Error& error) {
    end.outcome = {error.what(), error.kind()};
  }
  end.seconds = seconds(runtime->now() - start);
  pid_t forked = 0;
  EXPECT_EQ(::read(child[0], &forked, sizeof forked), sizeof forked);
  EXPECT_EQ(::kill(forked, SIGKILL), 0) << "it has lived until now";
  EXPECT_EQ(::waitpid(one, nullptr, 0), one);
  ::close(child[0]);
  ::close(child[1]);
  return end;
}

TEST(ProcessEnd, IsNoticedThoughAChildKeepsTheConnection) {
  for (const bool shares : {true, false}) {
    for (const std::size_t numbers : {std::size_t{100}, last_numbers}) {
      const bool waits_before = numbers == last_numbers;
      SCOPED_TRACE(text(shares ? "shared memory, " : "tcp, ", numbers));
      const End end = end_beside_a_child(shares, numbers, waits_before);
      EXPECT_EQ(end.outcome.error,
                "rank 0: lost rank 1 (its process has ended) while waiting for test of 10 fp32 on "
                "exchange channel 0");
      EXPECT_EQ(end.outcome.kind, ErrorKind::peer);
      EXPECT_LT(end.seconds, 10);
    }
  }
}

}  // namespace
}  // namespace ripieno::transport
