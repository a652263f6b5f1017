// What virtual time costs grows with the messages: not with the workers times the workers, and not with the numbers
// that nobody looks at. Counted, never timed.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "ripieno/collective/execute.h"
#include "ripieno/collective/virtual_cluster.h"
#include "ripieno/predict/projection.h"

namespace {

std::atomic<std::size_t> bytes_held{0}, most_held{0}, allocations{0};  // of this process

void* counted_block(std::size_t bytes, std::size_t alignment) {
  void* const block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!block) throw std::bad_alloc();
  ++allocations;
  const std::size_t held = bytes_held += malloc_usable_size(block);
  if (held > most_held) most_held = held;
  return block;
}

void free_counted(void* block) noexcept {
  if (!block) return;
  bytes_held -= malloc_usable_size(block);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t bytes) { return counted_block(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted_block(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {  // std::stable_sort's
  try {
    return counted_block(bytes, alignof(std::max_align_t));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* block) noexcept { free_counted(block); }
void operator delete(void* block, std::size_t) noexcept { free_counted(block); }
void operator delete(void* block, std::align_val_t) noexcept { free_counted(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { free_counted(block); }

namespace ripieno::predict {
namespace {

struct Cost {
  double messages = 0, events = 0, allocations = 0, held = 0;
};

/// Of all-reduces of numbers without data; `held` at once, beyond what was held before.
Cost cost_of(const char* route, int ranks, std::size_t turn_bytes) {
  const std::size_t before = bytes_held;
  collective::VirtualCluster cluster(ranks, {.turn_bytes = turn_bytes});
  const NumberSpan numbers(nullptr, 1 << 16, DType::fp32);
  const auto run = [&](collective::Communicator comm) {
    return collective::all_reduce(collective::find_route(route), comm, numbers, {});
  };
  cluster.run(run);  // takes what later ones have
  const std::uint64_t events = cluster.runtime().fired();
  const std::size_t taken = allocations;
  most_held = bytes_held.load();
  cluster.run(run);
  Cost cost;
  for (int rank = 0; rank < ranks; ++rank) {
    cost.messages += static_cast<double>(cluster.ledger(rank).total().messages_sent) / 2;  // of the second time
  }
  EXPECT_GT(cost.messages, 0);
  cost.events = static_cast<double>(cluster.runtime().fired() - events);
  cost.allocations = static_cast<double>(allocations - taken);
  cost.held = static_cast<double>(most_held - before);
  return cost;
}

TEST(Scale, AMessageTakesAsManyEventsAndAllocationsAmongMoreRanks) {
  for (const char* route : {"ring", "halving-doubling", "double-binary-tree"}) {
    for (const std::size_t turn_bytes : {0, 1 << 20}) {
      const Cost few = cost_of(route, 64, turn_bytes), many = cost_of(route, 256, turn_bytes);
      EXPECT_EQ(few.events / few.messages, 3) << route;  // sent, its head there, all of it there
      EXPECT_EQ(many.events / many.messages, 3) << route;
      if (route == std::string_view("ring")) {
        EXPECT_LT(few.allocations / few.messages, 6);  // of the others, beginning takes a good part
      }
      EXPECT_LT(many.allocations / many.messages, 1.05 * few.allocations / few.messages) << route;
    }
  }
}

TEST(Scale, ARingHoldsAsMuchForEachOfMoreRanks) {
  for (const char* route : {"ring", "halving-doubling"}) {
    const Cost few = cost_of(route, 64, 0), many = cost_of(route, 256, 0);
    EXPECT_LT(many.held / 256, (route == std::string_view("ring") ? 1.05 : 1.4) * few.held / 64) << route;
    EXPECT_LT(many.held / 256, 16384) << route;
  }
}

/// Held at once by the projection of two steps of a model of a million numbers.
double projection_holds(const char* strategy, int workers) {
  ProjectedJob job;
  job.info = &strategy::find_strategy(strategy);
  if (job.info->route == "any") job.plan.exchange.route = "halving-doubling";
  job.workers = workers;
  job.layout.tensors = {{"weights", {1000, 1000}, {0, 1000000}}};
  job.layout.buckets = {{0, 1000000}};
  job.layout.parameters = 1000000;
  job.profile = {32, Duration(0), from_seconds(0.01), from_seconds(0.02), {from_seconds(0.02)}};
  job.steps.assign(static_cast<std::size_t>(workers), 2);
  job.images.assign(static_cast<std::size_t>(workers), 32);
  job.samples.assign(static_cast<std::size_t>(workers), 64);
  const std::size_t before = bytes_held;
  most_held = before;
  EXPECT_GT(project(job).messages, 0u);
  return static_cast<double>(most_held - before);
}

TEST(Scale, AProjectionHoldsNoNumbersThatNobodyLooksAt) {
  for (const char* strategy : {"ring", "ddp"}) {
    EXPECT_LT(projection_holds(strategy, 64), 64 * 32768) << strategy;  // a copy of its model of 32768 numbers: 131072
    EXPECT_LT(projection_holds(strategy, 256), 256 * 32768) << strategy;
  }
}

}  // namespace
}  // namespace ripieno::predict
