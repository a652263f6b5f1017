#include "ripieno/core/memory.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

namespace ripieno {
namespace {

constexpr std::align_val_t line{64};
thread_local bool ended = false;  // outlives the lists: blocks given back later are freed

/// A free block holds the address of the next.
struct Free {
  Free* next;
};

/// Free blocks by size, which is a power of two.
struct Lists {
  std::array<Free*, 64> first{};

  ~Lists() {
    ended = true;
    for (Free* block : first) {
      while (block) ::operator delete(std::exchange(block, block->next), line);
    }
  }
};

Free*& first_free(int power) {
  thread_local Lists lists;
  return lists.first[static_cast<std::size_t>(power)];
}

int power_for(std::size_t bytes) { return std::bit_width(std::max<std::size_t>(bytes, 64) - 1); }

}  // namespace

std::shared_ptr<std::byte> own_memory(std::size_t bytes) {
  auto* data = static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), line));
  std::memset(data, 0, bytes);
  return {data, [](std::byte* owned) { ::operator delete(owned, line); }};
}

std::shared_ptr<std::byte> no_memory(std::size_t) { return nullptr; }

void* take_block(std::size_t bytes) {
  const int power = power_for(bytes);
  Free* const block = ended ? nullptr : first_free(power);
  if (!block) return ::operator new(std::size_t{1} << power, line);
  first_free(power) = block->next;
  return block;
}

void give_back_block(void* block, std::size_t bytes) noexcept {
  if (!block) return;
  if (ended) return ::operator delete(block, line);
  Free*& first = first_free(power_for(bytes));
  first = new (block) Free{first};
}

}  // namespace ripieno
