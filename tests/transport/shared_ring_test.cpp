#include "ripieno/transport/shared/ring.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace ripieno::transport {
namespace {

constexpr std::size_t small_ring = 512;

/// A ring in memory of this process, where a sanitizer sees both sides.
struct Ring {
  Ring() : memory(new(std::align_val_t{line_bytes}) std::byte[ring_section(small_ring)]) {
    state = new (memory) RingState;
  }
  ~Ring() { ::operator delete[](memory, std::align_val_t{line_bytes}); }
  std::byte* memory;
  RingState* state;
  RingWriter writer() { return RingWriter(state, small_ring); }
  RingReader reader() { return RingReader(state, small_ring); }
};

TEST(SharedRing, BytesOfEverySizeGoRound) {
  Ring ring;
  constexpr int messages = 3000;
  std::thread writes([&ring] {
    RingWriter writer = ring.writer();
    for (int i = 0; i < messages; ++i) {
      std::size_t left = 1 + i % 700;  // up to more than the ring holds
      while (left > 0) {
        const Bytes space = writer.space(left);
        if (space.empty()) {
          std::this_thread::yield();
          continue;
        }
        for (std::byte& byte : space) byte = static_cast<std::byte>(i);
        writer.advance(space.size());
        writer.publish();
        left -= space.size();
      }
    }
  });
  RingReader reader = ring.reader();
  int wrong = 0;
  for (int i = 0; i < messages; ++i) {
    std::size_t left = 1 + i % 700;
    while (left > 0) {
      const ConstBytes piece = reader.piece(left);
      if (piece.empty()) {
        std::this_thread::yield();
        continue;
      }
      for (const std::byte byte : piece) wrong += byte != static_cast<std::byte>(i);
      left -= piece.size();
      reader.advance(piece.size());
    }
  }
  writes.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(reader.readable(), 0u);
}

TEST(SharedRing, NothingIsSeenBeforeItIsPublished) {
  Ring ring;
  RingWriter writer = ring.writer();
  RingReader reader = ring.reader();
  writer.advance(writer.space(10).size());
  EXPECT_FALSE(writer.published());
  EXPECT_EQ(reader.readable(), 0u);
  EXPECT_EQ(writer.room(), small_ring - line_bytes);
  writer.publish();
  EXPECT_EQ(reader.readable(), line_bytes);
  EXPECT_FALSE(reader.advance(10));
  EXPECT_EQ(writer.room(), small_ring);
  writer.want_room(true);
  writer.advance(line_bytes);
  writer.publish();
  EXPECT_TRUE(reader.advance(line_bytes));
}

TEST(SharedRing, TicketsComeBackInOrder) {
  Ring ring;
  RingWriter writer = ring.writer();
  RingReader reader = ring.reader();
  for (std::uint64_t round = 0; round < 5; ++round) {
    EXPECT_FALSE(writer.has_ticket());
    for (std::uint64_t i = 0; i < max_tickets; ++i) reader.give_back(round * 1000 + i);
    for (std::uint64_t i = 0; i < max_tickets; ++i) {
      ASSERT_TRUE(writer.has_ticket());
      EXPECT_EQ(writer.next_ticket(), round * 1000 + i);
    }
  }
  EXPECT_FALSE(reader.withdrawn());
  writer.close();
  EXPECT_TRUE(reader.withdrawn());
}

TEST(SharedRing, CountsThatCannotBeAreRefused) {
  for (const std::uint64_t written : {small_ring + 64, std::size_t{1} << 60}) {
    Ring ring;
    ring.state->written = written;
    EXPECT_THROW((void)ring.reader().readable(), Error);
    EXPECT_THROW((void)ring.reader().piece(1), Error);
  }
  {  // back to before what was taken
    Ring ring;
    RingReader reader = ring.reader();
    ring.state->written = 128;
    reader.advance(128);
    ring.state->written = 64;
    EXPECT_THROW((void)reader.readable(), Error);
  }
  {  // more taken than was written
    Ring ring;
    ring.state->taken = 64;
    RingWriter writer = ring.writer();
    EXPECT_THROW((void)writer.room(), Error);
  }
}

}  // namespace
}  // namespace ripieno::transport
