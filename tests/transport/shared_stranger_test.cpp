// What shared memory may bring besides messages: garbage, forged headers and places, the end of a process.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/write.hpp>
#include <csignal>
#include <filesystem>

#include "ripieno/core/async.h"
#include "ripieno/transport/shared/endpoint.h"
#include "tests/transport/stranger.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;

Task<> receive_ten(Endpoint* e) {
  std::vector<float> in(10);
  co_await e->receive(1, message(10), bytes(in));
}

/// How rank 0's receive ends after the stranger has done `what`.
Outcome receive_after(const std::function<void(SharedControl&, SharedArena&, SharedPeer&)>& what) {
  const auto then = [&what](SharedHub& hub, SharedPeer& zero) { what(*hub.own()->control, *hub.own()->arena, zero); };
  return beside_stranger(receive_ten, false, then);
}

void put(RingWriter& ring, const void* data, std::size_t size) {
  std::memcpy(ring.space(size).data(), data, size);
  ring.advance(size);
}

TEST(SharedStranger, GarbageIsANamedError) {
  const Outcome outcome = receive_after([](SharedControl& control, SharedArena&, SharedPeer&) {
    RingWriter ring = control.ring_to(0);
    const std::vector<char> garbage(1024, 'G');
    put(ring, garbage.data(), garbage.size());
    ring.publish();
  });
  EXPECT_EQ(outcome.kind, ErrorKind::mismatch);
  EXPECT_EQ(outcome.error.find("rank 0: rank 1 sent bytes that are not a message's header"), 0) << outcome.error;
}

/// A header for the message that rank 0 waits for, changed by `change`, and the line that follows it.
Outcome receive_header(const std::function<void(FrameBytes&)>& change, std::array<std::uint64_t, 3> line,
                       bool with_line) {
  return receive_after([&](SharedControl& control, SharedArena& arena, SharedPeer&) {
    const auto memory = arena.take(100);
    FrameBytes header = encode(make_frame(message(10), 0, 0, 40));
    change(header);
    const std::byte mark = std::exchange(header[38], std::byte{0});
    seal(header);
    header[38] = mark;
    RingWriter ring = control.ring_to(0);
    put(ring, header.data(), header.size());
    if (with_line) put(ring, line.data(), sizeof line);
    ring.publish();
  });
}

TEST(SharedStranger, PlacesOutsideOfRegisteredMemoryAreNotRead) {
  auto placed = [](FrameBytes& header) { header[38] = std::byte{1}; };
  const std::uint64_t size = 64ull << 20;
  // {offset, ticket, region}: 40 bytes that are there, and then what is not.
  EXPECT_EQ(receive_header(placed, {64, 0, 0}, true).error, "");
  EXPECT_EQ(receive_header(placed, {size, 0, 0}, true).kind, ErrorKind::mismatch);
  EXPECT_EQ(receive_header(placed, {size - 39, 0, 0}, true).kind, ErrorKind::mismatch);
  EXPECT_EQ(receive_header(placed, {~0ull - 8, 0, 0}, true).kind, ErrorKind::mismatch);
  EXPECT_EQ(receive_header(placed, {64, 0, 1}, true).kind, ErrorKind::mismatch);
  EXPECT_EQ(receive_header(placed, {64, 0, 0xFFFFFFFF}, true).kind, ErrorKind::mismatch);
  EXPECT_EQ(receive_header(placed, {}, false).kind, ErrorKind::mismatch);  // the place is missing
}

TEST(SharedStranger, HeadersAreChecked) {
  EXPECT_EQ(receive_header([](FrameBytes& header) { header[38] = std::byte{2}; }, {}, false).kind, ErrorKind::mismatch);
  EXPECT_EQ(receive_header([](FrameBytes& header) { header[31] = std::byte{1}; }, {}, false).kind, ErrorKind::mismatch);
  const Outcome late = receive_header([](FrameBytes& header) { header[40] = std::byte{5}; }, {}, false);
  EXPECT_NE(late.error.find("sent message 5"), std::string::npos) << late.error;
  const Outcome other = receive_header([](FrameBytes& header) { header[4] = std::byte{7}; }, {}, false);
  EXPECT_NE(other.error.find("epoch 7"), std::string::npos) << other.error;
}

TEST(SharedStranger, CountsAndTicketsThatCannotBeAreNamed) {
  const Outcome counts = receive_after([](SharedControl& control, SharedArena&, SharedPeer&) {
    RingWriter ring = control.ring_to(0);
    for (int i = 0; i < 2; ++i) ring.advance(stranger_ring);  // more than there is
    ring.publish();
  });
  EXPECT_EQ(counts.kind, ErrorKind::mismatch);
  const Outcome ticket = receive_after([](SharedControl&, SharedArena&, SharedPeer& zero) { zero.ring.give_back(7); });
  EXPECT_EQ(ticket.kind, ErrorKind::mismatch);
  EXPECT_EQ(ticket.error, "rank 0: rank 1 gave ticket 7 back, which it had not got");
}

TEST(SharedStranger, AnEndpointMayGoWhileOthersWaitOnIt) {
  const auto fds = connect_all(2);
  std::thread other([&] {
    auto runtime = real_runtime(1);
    auto endpoint = make_endpoint(Way::shared, *runtime, 1, fds[1], {});
    auto body = [](Endpoint* e) -> Task<> {
      const auto out = e->memory(1 << 20);
      co_await e->send(0, message(1 << 18), ConstBytes(out.get(), 1 << 20));  // nobody takes it
    };
    runtime->spawn("sends", body(endpoint.get()));
    EXPECT_THROW(runtime->run(), Error);
  });
  auto runtime = real_runtime(0);
  auto endpoint = make_endpoint(Way::shared, *runtime, 0, fds[0], {});
  runtime->spawn("waits", receive_ten(endpoint.get()));
  auto destroy = [&endpoint] { endpoint.reset(); };
  asio::post(runtime->context(), destroy);
  EXPECT_THROW(runtime->run(), Error);
  other.join();
}

TEST(SharedStranger, AnotherVersionIsNamed) {
  const auto fds = connect_all(2);
  auto runtime = real_runtime(0);
  tcp::socket stranger(runtime->context(), tcp::v4(), fds[1][0]);
  const std::vector<char> garbage(sizeof(SharedHello), 'G');
  asio::write(stranger, asio::buffer(garbage));
  try {
    make_endpoint(Way::shared, *runtime, 0, fds[0], {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  }
}

TEST(SharedStranger, APeerThatNeverAnswersIsGivenUp) {
  const auto fds = connect_all(2);
  auto runtime = real_runtime(0);
  tcp::socket silent(runtime->context(), tcp::v4(), fds[1][0]);
  SharedOptions options;
  options.agreement = std::chrono::milliseconds(20);
  try {
    make_endpoint(Way::shared, *runtime, 0, fds[0], options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 0: gave up on rank 1 after 0.02 s of agreeing on how to reach it");
  }
}

/// All ranks exchange with their neighbours until an error; rank 1 tells `ready` that it is under way.
Task<> exchange_for_ever(Endpoint* e, int ready) {
  const int next = (e->rank() + 1) % e->size(), last = (e->rank() + e->size() - 1) % e->size();
  const auto out = e->memory(1 << 20), in = e->memory(1 << 20);
  for (int i = 0;; ++i) {
    const std::size_t bytes = i % 2 ? 1 << 20 : 64;
    Task<> sending = e->send(next, message(bytes / 4), ConstBytes(out.get(), bytes));
    Task<> receiving = e->receive(last, message(bytes / 4), Bytes(in.get(), bytes));
    auto revoke = [e](std::exception_ptr error) { e->abort(0, everyone(e), error); };
    co_await both(e->runtime(), std::move(sending), std::move(receiving), revoke);
    if (i == 100 && e->rank() == 1) {
      const char going = 1;
      if (::write(ready, &going, 1) != 1) ::_exit(99);
    }
  }
}

/// The same with all-reduces in place, large and small.
Task<> all_reduce_for_ever(Endpoint* e, int ready) {
  const auto registered = e->memory(1 << 20);
  for (int i = 0;; ++i) {
    const NumberSpan numbers(registered.get(), i % 2 ? 1 << 18 : 16, DType::fp32);
    co_await e->run_engine(Collective::all_reduce, message(numbers.count), numbers);
    if (i == 100 && e->rank() == 1) {
      const char going = 1;
      if (::write(ready, &going, 1) != 1) ::_exit(99);
    }
  }
}

using Exchange = Task<> (*)(Endpoint* e, int ready);

/// A rank as a process; its exit code is the kind of the error that it met.
int run_rank(int rank, const std::vector<std::vector<int>>& fds, int ready, Exchange exchange) {
  for (std::size_t other = 0; other < fds.size(); ++other) {
    for (const int fd : fds[other]) {
      if (static_cast<int>(other) != rank && fd >= 0) ::close(fd);
    }
  }
  int code = 0;
  auto runtime = real_runtime(rank);
  auto endpoint = make_endpoint(Way::shared, *runtime, rank, fds[rank], {});
  if (endpoint->way(1 - std::min(rank, 1)) != "shared memory") return 98;
  runtime->spawn(text("rank ", rank), exchange(endpoint.get(), ready));
  try {
    runtime->run();
  } catch (const Error& error) {
    code = static_cast<int>(error.kind());
    // Rank 0 and 2 lose rank 1, or each other because of it.
    if (std::string(error.what()).find("lost rank") == std::string::npos) code = 97;
  }
  endpoint.reset();
  return code;
}

std::size_t names_of_shared_memory() {
  const std::filesystem::directory_iterator names("/dev/shm");
  return static_cast<std::size_t>(std::distance(begin(names), end(names)));
}

void expect_a_killed_process_is_lost(Exchange exchange) {
  const std::size_t before = names_of_shared_memory();
  const auto fds = connect_all(3);
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < 3; ++rank) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) ::_exit(run_rank(rank, fds, ready[1], exchange));
    processes.push_back(pid);
  }
  for (const auto& row : fds) {
    for (const int fd : row) {
      if (fd >= 0) ::close(fd);
    }
  }
  ::close(ready[1]);
  char going = 0;
  EXPECT_EQ(::read(ready[0], &going, 1), 1);
  ::kill(processes[1], SIGKILL);
  for (int rank = 0; rank < 3; ++rank) {
    int status = 0;
    ASSERT_EQ(::waitpid(processes[rank], &status, 0), processes[rank]);
    if (rank == 1) {
      EXPECT_TRUE(WIFSIGNALED(status));
    } else {
      EXPECT_TRUE(WIFEXITED(status));
      EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ErrorKind::peer)) << "rank " << rank;
    }
  }
  ::close(ready[0]);
  EXPECT_EQ(names_of_shared_memory(), before);
}

TEST(SharedStranger, AKilledProcessIsLostAndLeavesNothing) { expect_a_killed_process_is_lost(exchange_for_ever); }

TEST(SharedStranger, AProcessKilledInAnAllReduceIsLostAndLeavesNothing) {
  expect_a_killed_process_is_lost(all_reduce_for_ever);
}

}  // namespace
}  // namespace ripieno::transport
