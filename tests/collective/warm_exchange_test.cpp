// What an exchange takes in its first rounds it has in the later ones: warm rounds take no new memory for numbers.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "ripieno/collective/averager.h"
#include "ripieno/collective/execute.h"
#include "tests/transport/tcp_ranks.h"

namespace {

constexpr std::size_t large = 64 << 10;
std::atomic<int> large_allocations{0};  // of this process

void* counted(std::size_t bytes, std::size_t alignment) {
  if (bytes >= large) ++large_allocations;
  void* const block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  return block ? block : throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {  // std::stable_sort's
  if (bytes >= large) ++large_allocations;
  return std::malloc(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }

namespace ripieno::collective {
namespace {

constexpr std::size_t elements = 1 << 19;
constexpr int rounds = 20;

Task<> average(Averager* averager, Communicator comm, NumberSpan numbers) {
  for (int i = 0; i < rounds; ++i) {
    for (std::size_t slot = 0; slot < 2; ++slot) {
      co_await averager->average(comm, slot, numbers.slice(slot * elements / 2, (slot + 1) * elements / 2), 0.5);
      averager->commit(slot);
    }
  }
}

TEST(WarmExchange, TakesNoNewMemoryForNumbers) {
  for (const codec::CodecInfo& codec : codec::codecs()) {
    for (const char* route : {"ring", "direct", "two-phase"}) {
      if (!averages_over(codec.name, route)) continue;
      AveragerOptions options;
      options.route = route;
      options.codec.name = codec.name;
      if (codec.kind == codec::CodecKind::wire) options.segment_bytes = 1 << 19;
      const auto runtime = real_runtime(0);
      const auto fds = testing::connect_all(2);
      std::vector<std::vector<float>> numbers(2, std::vector<float>(elements, 1));
      std::vector<std::shared_ptr<transport::Endpoint>> endpoints;
      std::vector<std::unique_ptr<Averager>> averagers;
      for (int rank = 0; rank < 2; ++rank) {
        endpoints.push_back(transport::tcp_endpoint(*runtime, rank, testing::sockets_of(*runtime, fds[rank]),
                                                    {.link = {.timeout = std::chrono::seconds(60)}}));
        Slot slot{elements / 2};
        slot.matrices.push_back({{0, elements / 2}, 512, elements / 1024});
        averagers.push_back(make_averager(options, {slot, slot}, DType::fp32));
      }
      const int before = large_allocations;
      for (int rank = 0; rank < 2; ++rank) {
        runtime->spawn("rank", average(averagers[rank].get(), Communicator(endpoints[rank]), numbers[rank]));
      }
      runtime->run();
      // What is kept and what may be under way at a time; each of the 40 averages uses at least one such buffer.
      EXPECT_LE(large_allocations - before, 16) << codec.name << " " << route;
    }
  }
}

}  // namespace
}  // namespace ripieno::collective
