// Memory for numbers that are exchanged, and recycled blocks for short-lived bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace ripieno {

/// A source of memory: gives `bytes` zeroed bytes, aligned to 64, owned by their holders; e.g. an endpoint's registered
/// memory (transport/endpoint.h). Empty: own_memory().
using Memory = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

/// A Memory of the process's heap.
std::shared_ptr<std::byte> own_memory(std::size_t bytes);
/// A Memory that gives none: numbers in it have sizes without data (core/span.h).
std::shared_ptr<std::byte> no_memory(std::size_t bytes);

/// A block of at least so many uninitialised bytes, aligned to 64; reuses one that was given back before, if there is
/// one. So steps that do the same allocate nothing new after the first few. Large blocks (above 16 KiB) are reused
/// whichever thread gave them back, and stay the process's. A small one is reused by the thread that gave it back,
/// which keeps some MiB of each size until it ends.
void* take_block(std::size_t bytes);
void give_back_block(void* block, std::size_t bytes) noexcept;
/// What this thread keeps of small blocks, for tests.
std::size_t free_bytes_of_thread();

/// take_block() for containers.
template <class T>
struct RecyclingAllocator {
  using value_type = T;

  RecyclingAllocator() = default;
  template <class U>
  RecyclingAllocator(const RecyclingAllocator<U>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(take_block(count * sizeof(T))); }
  void deallocate(T* block, std::size_t count) noexcept { give_back_block(block, count * sizeof(T)); }
  bool operator==(const RecyclingAllocator&) const { return true; }
};

template <class T>
using RecycledVector = std::vector<T, RecyclingAllocator<T>>;
using ByteVector = RecycledVector<std::byte>;

struct GiveBack {
  std::size_t bytes = 0;
  void operator()(std::byte* block) const noexcept { give_back_block(block, bytes); }
};

/// A block of take_block() that gives itself back.
using Scratch = std::unique_ptr<std::byte[], GiveBack>;
inline Scratch scratch(std::size_t bytes) {
  return Scratch(static_cast<std::byte*>(take_block(bytes)), GiveBack{bytes});
}

}  // namespace ripieno
