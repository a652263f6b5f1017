// For the tests of aborts: operations side by side, whose memory is another's as soon as they have ended.
#pragma once

#include <algorithm>
#include <latch>

#include "ripieno/core/async.h"
#include "tests/transport/ranks.h"

namespace ripieno::testing {

inline transport::Message in_scope(transport::Scope scope, std::uint64_t count, std::uint32_t channel = 0) {
  transport::Message made = message(count, channel);
  made.channel.scope = scope;
  return made;
}

inline std::exception_ptr the_cause() { return std::make_exception_ptr(Error(ErrorKind::data, "the cause")); }

/// What operations of `rank` fail with after `origin` has aborted their scope with the_cause().
inline std::string end_of(int rank, int origin) {
  return rank == origin ? "the cause" : text("rank ", rank, ": rank ", origin, " gave up: the cause");
}

/// That it failed so, or was over before its rank heard of the abort.
inline void expect_done_or(const std::string& error, const std::string& end) {
  EXPECT_TRUE(end == "done" || end == error) << end;
}

/// Numbers of which the test sees who touches them when they are nobody's any more.
struct WatchedNumbers {
  enum class Where : std::uint8_t { heap, registered };
  WatchedNumbers(transport::Endpoint* e, std::size_t count, Where where, float value) : count(count) {
    if (where == Where::registered) {
      memory = e->memory(count * sizeof(float));
    } else {
      memory = std::shared_ptr<std::byte>(new std::byte[count * sizeof(float)], std::default_delete<std::byte[]>());
    }
    fill(value);
  }
  float* data() const { return reinterpret_cast<float*>(memory.get()); }
  std::span<float> values() const { return {data(), count}; }
  Bytes bytes() const { return {memory.get(), count * sizeof(float)}; }
  void fill(float value) const { std::fill_n(data(), count, value); }
  bool are_all(float value) const {
    return std::all_of(data(), data() + count, [value](float one) { return one == value; });
  }
  std::size_t count;
  std::shared_ptr<std::byte> memory;
};

inline constexpr float spoilt = -77;

/// Spoilt numbers that nobody must write to any more.
using Kept = std::vector<WatchedNumbers>;
inline void expect_untouched(const Kept& kept) {
  for (const WatchedNumbers& numbers : kept) EXPECT_TRUE(numbers.are_all(spoilt));
}

/// Sends `message.count` numbers of `value`, and spoils and frees them as soon as that has ended.
inline Task<> send_filled(transport::Endpoint* e, int peer, transport::Message message, float value,
                          WatchedNumbers::Where where) {
  WatchedNumbers numbers(e, message.count, where, value);
  std::exception_ptr error;
  try {
    co_await e->send(peer, message, numbers.bytes());
  } catch (...) {
    error = std::current_exception();
  }
  numbers.fill(spoilt);
  numbers.memory.reset();
  if (error) std::rethrow_exception(error);
}

/// Receives what send_filled() sends, and checks it; to where it belongs, or added to ones. What an error leaves is
/// spoilt and kept for the test's end, or freed.
inline Task<> receive_filled(transport::Endpoint* e, int peer, transport::Message message, float value,
                             WatchedNumbers::Where where, bool adds, Kept* kept = nullptr) {
  WatchedNumbers numbers(e, message.count, where, 1);
  const transport::Sink sink(NumberSpan(numbers.values()), message.type,
                             adds ? numeric::Reduce::add : numeric::Reduce::replace);
  std::exception_ptr error;
  try {
    co_await e->receive(peer, message, sink);
  } catch (...) {
    error = std::current_exception();
  }
  if (!error) {
    EXPECT_TRUE(numbers.are_all(adds ? 1 + value : value))
        << transport::describe(message) << " in scope " << message.channel.scope;
    co_return;
  }
  numbers.fill(spoilt);
  if (kept) kept->push_back(numbers);
  numbers.memory.reset();
  std::rethrow_exception(error);
}

/// Operations side by side, and how they ended.
class Side {
 public:
  explicit Side(transport::Endpoint* e) : e_(e) {}

  /// Its number.
  std::size_t start(Task<> operation) {
    ends_.push_back(std::make_unique<std::string>());
    flights_.emplace_back(e_->runtime(), note(std::move(operation), ends_.back().get()));
    return ends_.size() - 1;
  }
  /// "" while it is under way, "done", or its error.
  const std::string& end(std::size_t i) const { return *ends_[i]; }
  Task<> landed() {
    for (Flight& flight : flights_) co_await flight.landed();
  }

 private:
  static Task<> note(Task<> operation, std::string* end) {
    try {
      co_await std::move(operation);
      *end = "done";
    } catch (const Error& error) {
      *end = error.what();
    }
  }

  transport::Endpoint* e_;
  std::vector<std::unique_ptr<std::string>> ends_;
  std::vector<Flight> flights_;
};

/// Lets this rank's loop go round for a while, so that what can be written and read is.
inline Task<> settle(transport::Endpoint* e) {
  const Duration a_while = std::chrono::milliseconds(3);
  return e->runtime().sleep(a_while);
}

/// All ranks are here: until then each still answers. In a scope of its own.
inline Task<> meet_all(transport::Endpoint* e) {
  constexpr transport::Scope meetings = 1'000'000;
  for (int peer = 0; peer < e->size(); ++peer) {
    if (peer != e->rank()) co_await e->send(peer, in_scope(meetings, 0), ConstBytes());
  }
  for (int peer = 0; peer < e->size(); ++peer) {
    if (peer != e->rank()) co_await e->receive(peer, in_scope(meetings, 0), Bytes());
  }
}

/// Small credit, and a watchdog that a test that hangs soon meets.
inline transport::SharedOptions hasty() {
  transport::SharedOptions options;
  options.link.unasked_bytes = 1 << 20;
  options.link.timeout = std::chrono::seconds(30);
  return options;
}

}  // namespace ripieno::testing
