#include "ripieno/transport/shared/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace ripieno::transport {
namespace {

constexpr std::size_t ring_bytes = 256;

std::shared_ptr<SharedControl> control() {
  return std::make_shared<SharedControl>(2, ring_bytes, 0x1234567890abcdefull);
}

bool zeros(const std::byte* data, std::size_t bytes) {
  return std::all_of(data, data + bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(SharedArena, HandsOutAlignedZerosAndTakesThemBack) {
  const auto shown = control();
  const auto arena = std::make_shared<SharedArena>(shown);
  std::vector<std::byte*> first;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::shared_ptr<std::byte>> all;
    std::vector<std::byte*> places;
    for (const std::size_t bytes : {0ul, 1ul, 64ul, 100ul, 5000ul, 3ul << 20, 1ul << 20}) {
      auto memory = arena->take(bytes);
      ASSERT_TRUE(memory);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 64, 0u);
      EXPECT_TRUE(zeros(memory.get(), bytes)) << bytes << " round " << round;
      std::fill_n(memory.get(), bytes, std::byte{0xFF});
      places.push_back(memory.get());
      all.push_back(std::move(memory));
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) EXPECT_NE(all[i], all[j]);
    }
    // In another order than they were taken: the holes become one again.
    for (const std::size_t i : {3, 1, 6, 0, 2, 5, 4}) all[i].reset();
    if (round == 0) first = places;
    EXPECT_EQ(places, first);
  }
  EXPECT_EQ(shown->head().regions, 1u);
}

TEST(SharedArena, WhatIsKeptTakesMemoryAsItIsTouched) {
  const auto arena = std::make_shared<SharedArena>(control());
  constexpr std::size_t bytes = 16 << 20;
  std::byte* const data = arena->keep(bytes);
  data[bytes / 2] = std::byte{1};
  std::byte* const first = data - reinterpret_cast<std::uintptr_t>(data) % page_bytes;
  std::vector<unsigned char> pages(bytes / page_bytes);
  ASSERT_EQ(::mincore(first, bytes, pages.data()), 0);
  EXPECT_LE(std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }),
            600);  // a large one
}

TEST(SharedArena, NeighboursOfLargeBlocksKeepTheirNumbers) {
  const auto arena = std::make_shared<SharedArena>(control());
  constexpr std::size_t bytes = 5'000'000;  // pages of 2 MiB belong to two of them
  const auto filled = [](const std::byte* data, std::byte value) {
    return std::all_of(data, data + bytes, [value](std::byte byte) { return byte == value; });
  };
  auto first = arena->take(bytes), second = arena->take(bytes), third = arena->take(bytes);
  std::fill_n(first.get(), bytes, std::byte{1});
  std::fill_n(second.get(), bytes, std::byte{2});
  std::fill_n(third.get(), bytes, std::byte{3});
  for (int round = 0; round < 2; ++round) {
    const std::byte* const place = second.get();
    second.reset();
    second = arena->take(bytes);
    EXPECT_EQ(second.get(), place);
    EXPECT_TRUE(zeros(second.get(), bytes));
    EXPECT_TRUE(filled(first.get(), std::byte{1}));
    EXPECT_TRUE(filled(third.get(), std::byte{3}));
    std::fill_n(second.get(), bytes, std::byte{2});
  }
}

TEST(SharedArena, GrowsAndKnowsItsOwn) {
  const auto shown = control();
  const auto arena = std::make_shared<SharedArena>(shown);
  const auto small = arena->take(100);
  const auto large = arena->take(200 << 20);  // more than a region has: one of its own
  EXPECT_EQ(shown->head().regions, 2u);
  const auto place = arena->find(ConstBytes(large.get() + 64, 1000));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->region, 1u);
  EXPECT_EQ(arena->find(ConstBytes(small.get(), 100))->region, 0u);
  std::vector<std::byte> other(100);
  EXPECT_FALSE(arena->find(other));
  EXPECT_FALSE(arena->find(ConstBytes(large.get(), 1ul << 30)));
}

TEST(SharedArena, AForkedProcessFreesNothing) {
  const auto arena = std::make_shared<SharedArena>(control());
  auto block = arena->take(100'000);
  std::fill_n(block.get(), 100'000, std::byte{7});
  const pid_t child = ::fork();
  if (child == 0) {
    block.reset();
    ::_exit(0);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::count(block.get(), block.get() + 100'000, std::byte{7}), 100'000);
}

TEST(SharedArena, MemoryOutlivesEverythingElse) {
  auto shown = control();
  auto arena = std::make_shared<SharedArena>(shown);
  auto memory = arena->take(1 << 20);
  shown.reset();
  arena.reset();
  std::fill_n(memory.get(), 1 << 20, std::byte{7});
  memory.reset();
}

TEST(PeerRegions, ShowsWhatLiesThereAndNothingBeside) {
  const auto shown = control();
  const auto arena = std::make_shared<SharedArena>(shown);
  const auto memory = arena->take(100);
  std::fill_n(memory.get(), 100, std::byte{42});
  const Place place = *arena->find(ConstBytes(memory.get(), 100));
  PeerRegions regions(::getpid(), &shown->head());
  EXPECT_EQ(regions.at(place, 100)[99], std::byte{42});
  memory.get()[99] = std::byte{43};
  EXPECT_EQ(regions.at(place, 100)[99], std::byte{43});

  const std::uint64_t size = shown->head().region[0].bytes;
  EXPECT_NO_THROW(regions.at({0, size - 1}, 1));
  EXPECT_NO_THROW(regions.at({0, size}, 0));
  for (const auto& [wrong, bytes] : std::vector<std::pair<Place, std::uint64_t>>{
           {{0, size}, 1}, {{0, size - 1}, 2}, {{0, ~0ull}, 2}, {{0, 64}, ~0ull - 32}, {{1, 0}, 1}, {{~0u, 0}, 1}}) {
    try {
      regions.at(wrong, bytes);
      ADD_FAILURE() << wrong.region << " " << wrong.offset << " " << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::mismatch);
    }
  }
}

TEST(PeerRegions, WhatIsNotThePeersIsRefused) {
  // More said than there is; another's descriptor; one that could be shrunk under the reader.
  const auto shown = control();
  const auto arena = std::make_shared<SharedArena>(shown);
  const auto memory = arena->take(100);
  ControlHead& head = shown->head();
  const ControlHead::Region good = head.region[0];
  const SharedMemory other = SharedMemory::make(good.bytes);
  const Descriptor loose(::memfd_create("loose", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(loose.get(), static_cast<off_t>(good.bytes)), 0);
  for (const ControlHead::Region bad : {ControlHead::Region{good.bytes + 4096, good.fd},
                                        {good.bytes, other.fd()},
                                        {good.bytes, loose.get()},
                                        {good.bytes, -1},
                                        {0, good.fd}}) {
    head.region[0] = bad;
    PeerRegions regions(::getpid(), &head);
    EXPECT_THROW(regions.at({0, 64}, 10), Error) << bad.bytes << " bytes of " << bad.fd;
  }
  head.region[0] = good;
  PeerRegions regions(::getpid(), &head);
  EXPECT_NO_THROW(regions.at({0, 64}, 10));
}

}  // namespace
}  // namespace ripieno::transport
