#include "ripieno/core/memory.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace ripieno {
namespace {

TEST(Memory, ALargeBlockIsReusedWhicheverThreadGaveItBack) {
  constexpr std::size_t bytes = (std::size_t{1} << 24) - 5;
  std::set<void*> blocks;
  for (int i = 0; i < 20; ++i) {
    void* const block = take_block(bytes);
    blocks.insert(block);
    std::thread other([block] { give_back_block(block, bytes); });
    other.join();
  }
  EXPECT_EQ(blocks.size(), 1u);
}

TEST(Memory, AThreadKeepsSomeOfItsSmallBlocks) {
  std::size_t kept = 0;
  std::thread other([&kept] {
    void* const first = take_block(100);
    give_back_block(first, 100);
    EXPECT_EQ(take_block(128), first);  // of the same size in the lists
    give_back_block(first, 128);
    std::vector<void*> blocks;
    for (int i = 0; i < 100'000; ++i) blocks.push_back(take_block(100));
    for (void* const block : blocks) give_back_block(block, 100);
    kept = free_bytes_of_thread();
  });
  other.join();
  EXPECT_GT(kept, std::size_t{1} << 20);
  EXPECT_LT(kept, std::size_t{5} << 20) << "blocks of other threads would gather here without end";
}

}  // namespace
}  // namespace ripieno
