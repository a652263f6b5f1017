// A stream of bytes from one process to another through shared memory: one writes, one reads, and each keeps its own
// count where the other cannot change it. Everything is in lines of 64 bytes. Beside it, in the other direction, the
// tickets of what the reader has taken from where it lay.
//
// Waking. Who brings something (bytes, room, a ticket) first stores it and then looks whether the other side sleeps;
// who goes to sleep first says so and then looks once more whether there is something. Both stores and both loads are
// sequentially consistent, so all four have one order, and at least one side sees the other's store: no wake-up is
// lost. (With release and acquire alone each side could still read the value from before the other's store.)
//
// The other process is not trusted to be right: counts that cannot be are an Error(mismatch), and nothing outside of
// the ring is touched.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "ripieno/transport/shared/memory.h"

namespace ripieno::transport {

inline constexpr std::size_t line_bytes = 64;
/// Messages that lie in the sender's memory and whose tickets have not come back.
inline constexpr std::size_t max_tickets = 64;

/// What lies in shared memory, followed by the stream's bytes.
struct RingState {
  alignas(line_bytes) std::atomic<std::uint64_t> written{0};  ///< bytes, by the writer
  std::atomic<std::uint32_t> closed{0};      ///< by the writer: what lies in its memory is not what it sent any more
  std::atomic<std::uint32_t> wants_room{0};  ///< by the writer
  alignas(line_bytes) std::atomic<std::uint64_t> taken{0};     ///< bytes, by the reader
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

  /// Bytes that can be written; what has been written counts before publish() too.
  std::size_t room() {
    const std::uint64_t taken = state_->taken.load(std::memory_order_seq_cst);
    require_sane(taken >= taken_ && taken <= written_, "taken", taken);
    taken_ = taken;
    return size_ - static_cast<std::size_t>(written_ - taken_);
  }
  /// Whether `bytes` are more than there is room for, as far as this side has last seen: it may have become more.
  bool full_for(std::uint64_t bytes) const { return bytes > size_ - (written_ - taken_); }
  /// What can be written next in one piece, at most `most` bytes.
  Bytes space(std::size_t most) {
    const std::size_t at = written_ % size_;
    return {bytes() + at, std::min<std::size_t>({most, room(), size_ - at})};
  }
  /// `bytes` of space() are written; the rest of the last line is left as it is.
  void advance(std::size_t bytes) { written_ += round_up(bytes, line_bytes); }
  /// Shows the reader what was written.
  void publish() { state_->written.store(written_, std::memory_order_seq_cst); }
  bool published() const { return state_->written.load(std::memory_order_relaxed) == written_; }

  void want_room(bool wanted) {
    if (wanted != wants_) state_->wants_room.store(wants_ = wanted, std::memory_order_seq_cst);
  }
  void close() { state_->closed.store(1, std::memory_order_seq_cst); }

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
  /// What can be read next in one piece, at most `most` bytes.
  ConstBytes piece(std::size_t most) const {
    const std::size_t at = taken_ % size_;
    return {bytes() + at, std::min<std::size_t>({most, readable(), size_ - at})};
  }
  /// `bytes` of piece() are read and may be overwritten. Whether the writer waits for room.
  bool advance(std::size_t bytes) {
    taken_ += round_up(bytes, line_bytes);
    state_->taken.store(taken_, std::memory_order_seq_cst);
    return state_->wants_room.load(std::memory_order_seq_cst) != 0;
  }
  /// Gives the writer its ticket back. The writer reuses the memory once it has seen that.
  void give_back(std::uint64_t ticket) {
    state_->tickets[returned_ % max_tickets] = ticket;
    state_->returned.store(++returned_, std::memory_order_seq_cst);
  }
  /// After reading memory of the writer: whether it was still what had been sent. A read-modify-write, which the reads
  /// before it cannot pass.
  bool withdrawn() { return state_->closed.fetch_or(0, std::memory_order_seq_cst) != 0; }

 private:
  const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(state_ + 1); }

  RingState* state_ = nullptr;
  std::size_t size_ = 0;
  std::uint64_t taken_ = 0, returned_ = 0;
};

}  // namespace ripieno::transport
