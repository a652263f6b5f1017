// What the tests of averagers share: one averager for each rank of a virtual cluster, and a walk over their state.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ripieno/collective/averager.h"
#include "ripieno/collective/virtual_cluster.h"
#include "ripieno/core/async.h"

namespace ripieno::testing {

/// By slot, then by element.
using Numbers = std::vector<std::vector<double>>;

/// Different on every rank, in every round and slot; uniform over [-1, 1).
inline Numbers random_numbers(const std::vector<collective::Slot>& slots, int rank, int round) {
  Numbers numbers;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    Random random(17 + slot, static_cast<std::uint64_t>(rank * 1000 + round));
    numbers.emplace_back(slots[slot].elements);
    for (double& x : numbers.back()) x = random.uniform(-1, 1);
  }
  return numbers;
}

/// Unequal, and 1 in all.
inline double weight_of(int rank, int ranks) { return 2.0 * (rank + 1) / (ranks * (ranks + 1.0)); }

/// Writes an averager's state down, or back.
class Saved final : public StateVisitor {
 public:
  explicit Saved(collective::Averager& averager) { averager.visit(*this); }
  void restore(collective::Averager& averager) {
    restoring_ = true;
    averager.visit(*this);
  }
  void span(std::string_view name, NumberSpan values) override {
    std::vector<std::byte>& kept = spans[std::string(name)];
    if (restoring_) {
      require(kept.size() == values.size_bytes(), name, " has another size");
      if (!kept.empty()) std::memcpy(values.data, kept.data(), kept.size());
    } else {
      require(kept.empty(), name, " is shown twice");
      kept.assign(values.bytes().begin(), values.bytes().end());
    }
  }
  void number(std::string_view name, std::int64_t& value) override {
    (restoring_ ? value : numbers[std::string(name)]) = restoring_ ? numbers.at(std::string(name)) : value;
  }
  std::vector<double> fp64(const std::string& name) const {
    const std::vector<std::byte>& kept = spans.at(name);
    std::vector<double> values(kept.size() / sizeof(double));
    if (!kept.empty()) std::memcpy(values.data(), kept.data(), kept.size());
    return values;
  }

  std::map<std::string, std::vector<std::byte>> spans;
  std::map<std::string, std::int64_t> numbers;

 private:
  bool restoring_ = false;
};

class Averagers {
 public:
  using Make = std::function<std::unique_ptr<collective::Averager>()>;

  Averagers(collective::World world, std::vector<collective::Slot> slots, const Make& make)
      : world(world), slots(slots), cluster(world.ranks) {
    for (int rank = 0; rank < world.ranks; ++rank) of.push_back(make());
  }
  Averagers(collective::World world, std::vector<collective::Slot> slots, const collective::AveragerOptions& options,
            DType type = DType::fp64)
      : Averagers(world, slots, [&] { return collective::make_averager(options, slots, type); }) {}

  /// All slots at once. By rank.
  void average(std::vector<Numbers>& numbers) {
    cluster.run([&](collective::Communicator comm) {
      const int rank = comm.rank();
      std::vector<NumberSpan> spans;
      for (auto& one : numbers[rank]) spans.emplace_back(one);
      return all_slots(comm.on_nodes(world.per_node), of[rank].get(), spans, weight_of(rank, world.ranks));
    });
  }
  /// Numbers without data.
  void simulate() {
    cluster.run([&](collective::Communicator comm) {
      std::vector<NumberSpan> spans;
      for (const collective::Slot& slot : slots) spans.emplace_back(nullptr, slot.elements, DType::fp64);
      return all_slots(comm.on_nodes(world.per_node), of[comm.rank()].get(), spans, 1.0 / world.ranks);
    });
  }
  std::vector<Numbers> inputs(int round) const {
    std::vector<Numbers> all;
    for (int rank = 0; rank < world.ranks; ++rank) all.push_back(random_numbers(slots, rank, round));
    return all;
  }
  /// into += the true averages.
  void add_truth(const std::vector<Numbers>& inputs, Numbers& into) const {
    for (int rank = 0; rank < world.ranks; ++rank) {
      for (std::size_t slot = 0; slot < slots.size(); ++slot) {
        for (std::size_t i = 0; i < slots[slot].elements; ++i) {
          into[slot][i] += weight_of(rank, world.ranks) * inputs[rank][slot][i];
        }
      }
    }
  }
  Numbers zeros() const {
    Numbers numbers;
    for (const collective::Slot& slot : slots) numbers.emplace_back(slot.elements);
    return numbers;
  }

  collective::World world;
  std::vector<collective::Slot> slots;
  collective::VirtualCluster cluster;
  std::vector<std::unique_ptr<collective::Averager>> of;

 private:
  static Task<> all_slots(collective::Communicator comm, collective::Averager* averager, std::vector<NumberSpan> spans,
                          double weight) {
    std::vector<Task<>> tasks;
    for (std::size_t slot = 0; slot < spans.size(); ++slot) {
      tasks.push_back(averager->average(comm, slot, spans[slot], weight));
    }
    Task<> together = all(comm.runtime(), std::move(tasks), comm.ending());
    co_await std::move(together);
    for (std::size_t slot = 0; slot < spans.size(); ++slot) averager->commit(slot);
  }
};

}  // namespace ripieno::testing
