// A stream of bytes from one process to another through shared memory: one writes, one reads, and each keeps its own
// count where the other cannot change it. Everything is in lines of 64 bytes. In the other direction go tickets, for
// payloads that the reader has taken in place.
//
// Waking. A side that has something for the other (bytes, room, a ticket) first stores it and then checks whether the
// other sleeps; a side that goes to sleep first announces it and then checks once more whether there is something. Both
// stores and both loads are sequentially consistent, so all four have one order, and at least one side sees the other's
// store: no wake-up is lost. (With release and acquire alone each side could still read the value from before the
// other's store.)
//
// The other process is not trusted: impossible counts are an Error(mismatch), and nothing outside the ring is touched.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "ripieno/transport/shared/memory.h"

namespace ripieno::transport {

inline constexpr std::size_t line_bytes = 64;
/// The most messages in the sender's memory whose tickets have not come back.
inline constexpr std::size_t max_tickets = 64;

/// The ring's state in shared memory; the stream's bytes follow it.
struct RingState {
  alignas(line_bytes) std::atomic<std::uint64_t> written{0};  ///< bytes, by the writer
  std::atomic<std::uint32_t> closed{0};                     ///< by the writer: its memory no longer holds what it sent
  std::atomic<std::uint32_t> wants_room{0};                 ///< by the writer
  alignas(line_bytes) std::atomic<std::uint64_t> taken{0};  ///< bytes, by the reader
  alignas(line_bytes) std::atomic<std::uint64_t> returned{0};  ///< tickets, by the reader
  std::array<std::uint64_t, max_tickets> tickets{};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(RingState) % line_bytes == 0);

constexpr std::size_t ring_section(std::size_t ring_bytes) { return sizeof(RingState) + ring_bytes; }

class RingWriter {
 public:
  RingWriter() = default;
  /// `ring_bytes` is a multiple of a line.
  RingWriter(RingState* state, std::size_t ring_bytes) : state_(state), size_(ring_bytes) {}

  /// Bytes that can be written; written bytes count even before publish().
  std::size_t room() {
    const std::uint64_t taken = state_->taken.load(std::memory_order_seq_cst);
    require_sane(taken >= taken_ && taken <= written_, "taken", taken);
    taken_ = taken;
    return size_ - static_cast<std::size_t>(written_ - taken_);
  }
  /// Whether `bytes` exceed the room that this side last saw; there may be more room by now.
  bool full_for(std::uint64_t bytes) const { return bytes > size_ - (written_ - taken_); }
  /// The memory that can be written next in one piece, at most `most` bytes.
  Bytes space(std::size_t most) {
    const std::size_t at = written_ % size_;
    return {bytes() + at, std::min<std::size_t>({most, room(), size_ - at})};
  }
  /// Call it after writing `bytes` of space(); the rest of the last line is left as it is.
  void advance(std::size_t bytes) { written_ += round_up(bytes, line_bytes); }
  /// Makes the written bytes visible to the reader.
  void publish() { state_->written.store(written_, std::memory_order_seq_cst); }
  bool published() const { return state_->written.load(std::memory_order_relaxed) == written_; }

  void want_room(bool wanted) {
    if (wanted != wants_) state_->wants_room.store(wants_ = wanted, std::memory_order_seq_cst);
  }
  /// From now on what is written need not be what was published: the fence keeps later writes behind the mark, by which
  /// a reader knows.
  void close() {
    state_->closed.store(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

  /// Whether tickets have come back.
  bool has_ticket() const { return state_->returned.load(std::memory_order_seq_cst) != returned_; }
  std::uint64_t next_ticket() { return state_->tickets[returned_++ % max_tickets]; }

 private:
  std::byte* bytes() { return reinterpret_cast<std::byte*>(state_ + 1); }
  void require_sane(bool sane, const char* what, std::uint64_t value) const {
    if (!sane) fail(ErrorKind::mismatch, "shared memory: ", value, " bytes ", what, " of ", written_, " written");
  }

  RingState* state_ = nullptr;
  std::size_t size_ = 0;
  std::uint64_t written_ = 0, taken_ = 0, returned_ = 0;
  bool wants_ = false;
};

class RingReader {
 public:
  RingReader() = default;
  RingReader(RingState* state, std::size_t ring_bytes) : state_(state), size_(ring_bytes) {}

  /// Bytes that can be read.
  std::size_t readable() const {
    const std::uint64_t written = state_->written.load(std::memory_order_seq_cst);
    if (written - taken_ > size_) {
      fail(ErrorKind::mismatch, "shared memory: ", written, " bytes written where ", taken_, " were taken");
    }
    return static_cast<std::size_t>(written - taken_) / line_bytes * line_bytes;
  }
  /// The bytes that can be read next in one piece, at most `most`.
  ConstBytes piece(std::size_t most) const {
    const std::size_t at = taken_ % size_;
    return {bytes() + at, std::min<std::size_t>({most, readable(), size_ - at})};
  }
  /// Call it after reading `bytes` of piece(), which may then be overwritten. Returns whether the writer waits for
  /// room.
  bool advance(std::size_t bytes) {
    taken_ += round_up(bytes, line_bytes);
    state_->taken.store(taken_, std::memory_order_seq_cst);
    return state_->wants_room.load(std::memory_order_seq_cst) != 0;
  }
  /// Gives the writer its ticket back. The writer then reuses the memory.
  void give_back(std::uint64_t ticket) {
    state_->tickets[returned_ % max_tickets] = ticket;
    state_->returned.store(++returned_, std::memory_order_seq_cst);
  }
  /// Call it after reading the writer's memory: whether the memory may have changed meanwhile. It is a
  /// read-modify-write, past which earlier reads cannot move.
  bool withdrawn() { return state_->closed.fetch_or(0, std::memory_order_seq_cst) != 0; }

 private:
  const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(state_ + 1); }

  RingState* state_ = nullptr;
  std::size_t size_ = 0;
  std::uint64_t taken_ = 0, returned_ = 0;
};

}  // namespace ripieno::transport
