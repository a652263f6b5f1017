#include "ripieno/core/memory.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

namespace ripieno {
namespace {

constexpr std::align_val_t line{64};
constexpr std::size_t largest_of_thread = 16 << 10;  // larger blocks belong to all threads
constexpr std::size_t most_of_a_size = 4 << 20;      // bytes of small blocks of one size that a thread keeps
thread_local bool ended = false;                     // outlives the lists: blocks given back later are freed

/// A free block holds the address of the next.
struct Free {
  Free* next;
};

/// Free blocks by size, which is a power of two.
class Lists {
 public:
  Lists() = default;
  Lists(const Lists&) = delete;
  Lists& operator=(const Lists&) = delete;
  ~Lists() {
    for (List& list : by_power_) {
      while (list.first) ::operator delete(std::exchange(list.first, list.first->next), line);
    }
  }

  void* take(int power) {
    List& list = by_power_[static_cast<std::size_t>(power)];
    if (!list.first) return nullptr;
    --list.blocks;
    return std::exchange(list.first, list.first->next);
  }
  void keep(void* block, int power) {
    List& list = by_power_[static_cast<std::size_t>(power)];
    list.first = new (block) Free{list.first};
    ++list.blocks;
  }
  std::size_t bytes(int power) const { return by_power_[static_cast<std::size_t>(power)].blocks << power; }
  std::size_t bytes() const {
    std::size_t all = 0;
    for (int power = 0; power < 64; ++power) all += bytes(power);
    return all;
  }

 private:
  struct List {
    Free* first = nullptr;
    std::size_t blocks = 0;
  };
  std::array<List, 64> by_power_{};
};

struct OfThread {
  Lists lists;
  ~OfThread() { ended = true; }
};

Lists& of_thread() {
  thread_local OfThread own;
  return own.lists;
}

/// Large blocks. An operation takes one on the thread that happens to drive it then, and gives it back on another.
struct OfAll {
  std::mutex mutex;
  Lists lists;
};

OfAll& of_all() {
  static auto* const all = new OfAll;  // never ended: threads may outlive main()
  return *all;
}

int power_for(std::size_t bytes) { return std::bit_width(std::max<std::size_t>(bytes, 64) - 1); }
bool is_large(int power) { return (std::size_t{1} << power) > largest_of_thread; }

void* recycled(int power) {
  if (is_large(power)) {
    OfAll& all = of_all();
    const std::lock_guard lock(all.mutex);
    return all.lists.take(power);
  }
  return ended ? nullptr : of_thread().take(power);
}

}  // namespace

std::shared_ptr<std::byte> own_memory(std::size_t bytes) {
  auto* data = static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), line));
  std::memset(data, 0, bytes);
  return {data, [](std::byte* owned) { ::operator delete(owned, line); }};
}

std::shared_ptr<std::byte> no_memory(std::size_t) { return nullptr; }

void* take_block(std::size_t bytes) {
  const int power = power_for(bytes);
  void* const block = recycled(power);
  return block ? block : ::operator new(std::size_t{1} << power, line);
}

void give_back_block(void* block, std::size_t bytes) noexcept {
  if (!block) return;
  const int power = power_for(bytes);
  if (is_large(power)) {
    OfAll& all = of_all();
    const std::lock_guard lock(all.mutex);
    return all.lists.keep(block, power);
  }
  if (ended || of_thread().bytes(power) >= most_of_a_size) return ::operator delete(block, line);
  of_thread().keep(block, power);
}

std::size_t free_bytes_of_thread() { return ended ? 0 : of_thread().bytes(); }

}  // namespace ripieno
