// A group whose membership changes, and groups made of others.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/c10d/ranks.h"

namespace ripieno::c10d {
namespace {

using namespace std::chrono_literals;

/// Processes, as threads, that have one store and no group yet. Each leaves its handle before `body` begins.
class Processes {
 public:
  explicit Processes(int size) : handles(static_cast<std::size_t>(size)) {}

  void run(const std::function<void(int process, Backend&)>& body, std::vector<std::uint64_t> global = {}) {
    std::vector<std::thread> threads;
    const int size = static_cast<int>(handles.size());
    for (int process = 0; process < size; ++process) {
      threads.emplace_back([&, process] {
        try {
          const auto options = within(60s);
          options->meets_later = true;
          options->global_ranks_in_group = global;
          Backend group(store, process, size, options);
          handles[static_cast<std::size_t>(process)] = group.reconfigure_handle();
          ++made;
          await(made, size);
          body(process, group);
        } catch (const std::exception& error) {
          ADD_FAILURE() << "process " << process << ": " << error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  /// Handles of some processes.
  std::vector<std::string> of(const std::vector<int>& processes) const {
    std::vector<std::string> some;
    for (const int process : processes) some.push_back(handles[static_cast<std::size_t>(process)]);
    return some;
  }

  const c10::intrusive_ptr<::c10d::Store> store = c10::make_intrusive<::c10d::HashStore>();
  std::vector<std::string> handles;
  std::atomic<int> made{0};
};

void expect_sum_of_ones(Backend& group) {
  EXPECT_EQ(all_reduced(group, at::ones({5}))[4].item<float>(), static_cast<float>(group.getSize()));
}

TEST(Reconfigured, GroupsShrinkGrowAndChangeTheirOrder) {
  const std::vector<std::vector<int>> memberships{{0, 1, 2, 3}, {2, 0}, {3, 1, 0, 2}, {1}, {0, 1, 3}, {3, 2, 1, 0}};
  Processes all(4);
  all.run([&](int process, Backend& group) {
    for (std::size_t id = 0; id < memberships.size(); ++id) {
      const std::vector<int>& now = memberships[id];
      const auto place = std::find(now.begin(), now.end(), process);
      if (place == now.end()) continue;
      group.reconfigure_to(static_cast<std::int64_t>(id), all.of(now), 60s);
      EXPECT_EQ(group.getRank(), place - now.begin());
      EXPECT_EQ(group.getSize(), static_cast<int>(now.size()));
      expect_sum_of_ones(group);
      if (now.size() < 2) continue;
      const int last = group.getSize() - 1;
      if (group.getRank() == 0) {
        send(group, number(process), last, 3);
      } else if (group.getRank() == last) {
        EXPECT_EQ(received(group, 0, 3), now[0]);
      }
    }
  });
}

TEST(Reconfigured, ARankThatEndedIsLeftOut) {
  Processes all(3);
  std::atomic<int> summed{0}, gone{0};
  all.run([&](int process, Backend& group) {
    group.reconfigure_to(1, all.of({0, 1, 2}), 60s);
    expect_sum_of_ones(group);
    ++summed;
    await(summed, 3);
    if (process == 1) {
      group.abort();
      EXPECT_EQ(group.getError(), ::c10d::ErrorType::SUCCESS) << "it was its own will";
      ++gone;
      return;
    }
    await(gone);
    EXPECT_TRUE(contains(error_of([&] { all_reduced(group, at::ones({5})); }), "rank 1"));
    EXPECT_EQ(group.getError(), ::c10d::ErrorType::COMM_ERROR);
    group.reconfigure_to(2, all.of({0, 2}), 60s);
    EXPECT_EQ(group.getError(), ::c10d::ErrorType::SUCCESS);
    expect_sum_of_ones(group);
  });
}

TEST(Reconfigured, WhatWasInFlightEndsWithAnErrorAndItsMemoryStays) {
  Processes all(2);
  all.run([&](int, Backend& group) {
    group.reconfigure_to(1, all.of({0, 1}), 60s);
    const at::Tensor bucket = group.allocateTensor(100'000, at::kFloat).fill_(1);
    expect_sum_of_ones(group);
    const Handle done = begin_sum(group, bucket);
    done->wait();
    const Handle never = begin_receive(group, at::zeros({1}), 1 - group.getRank(), 7);
    group.reconfigure_to(2, all.of({1, 0}), 60s);
    EXPECT_TRUE(contains(error_of([&] { never->wait(); }), "formed anew, with id 2"));
    EXPECT_TRUE(done->wait(kNoTimeout));
    const std::uint64_t sent = group.ledger().total(observe::Purpose::exchange).payload_sent;
    EXPECT_TRUE(all_reduced(group, bucket).eq(4).all().item<bool>()) << "memory of the members of before";
    EXPECT_GT(sent, 200'000u);
    EXPECT_GE(group.ledger().total(observe::Purpose::exchange).payload_sent, sent + 200'000) << "bytes go on";
  });
}

TEST(Reconfigured, BeforeTheFirstMeetingNothingCanBeAsked) {
  Processes all(1);
  all.run([&](int, Backend& group) {
    EXPECT_EQ(error_of([&] { all_reduced(group, at::ones({5})); }),
              "rank 0: the group has no members yet: they meet in torch.distributed._reconfigure()");
    EXPECT_TRUE(contains(error_of([&] { group.barrier({}); }), "no members yet"));
    EXPECT_TRUE(contains(error_of([&] { group.monitoredBarrier({}, false); }), "no members yet"));
    EXPECT_TRUE(contains(error_of([&] { group.allocateTensor(5, at::kFloat); }), "no members yet"));
    EXPECT_TRUE(contains(error_of([&] { group.count_model(); }), "no members yet"));
    EXPECT_TRUE(contains(error_of([&] { group.communicator(); }), "no members yet"));
    EXPECT_TRUE(contains(error_of([&] { group.new_order(); }), "no members yet"));
    EXPECT_TRUE(contains(error_of([&] { group.progress(); }), "no members yet"));
    EXPECT_FALSE(group.supportsTensorAlloc(-1));
    EXPECT_EQ(group.counts().ledger.total().payload_sent, 0u);
    EXPECT_EQ(group.getSequenceNumberForGroup(), 0u);
    group.abort();
    group.reconfigure_to(1, all.of({0}), 60s);
    expect_sum_of_ones(group);
  });
}

TEST(Reconfigured, AGroupStaysAsItWasWhereItCannotBe) {
  Processes all(2);
  std::atomic<int> tried{0};
  all.run([&](int process, Backend& group) {
    group.reconfigure_to(1, all.of({0, 1}), 60s);
    const auto refused = [&](std::int64_t id, const std::vector<std::string>& handles) {
      return error_of([&] { group.reconfigure_to(id, handles, 100ms); });
    };
    const std::string own = group.reconfigure_handle(), other = all.handles[std::size_t(1 - process)];
    EXPECT_TRUE(contains(refused(1, all.handles), text("id 1 was already used by rank ", process, " of the group")));
    EXPECT_TRUE(contains(refused(2, {other}), text("this process, ", own, ", is not among the 1 handles")));
    EXPECT_TRUE(contains(refused(2, {own, own}), "is there twice"));
    for (const char* wrong : {"", "gloo:0:1", "ripieno:", "ripieno:x:1", "ripieno:1:", "ripieno:1"})
      EXPECT_TRUE(contains(refused(2, {own, wrong}), text("handle '", wrong, "'")));
    if (process == 1) {
      EXPECT_TRUE(contains(refused(3, all.handles), "rank 0 of its 2 has not come within 0.1 s"));
    }
    ++tried;
    await(tried, 2);
    expect_sum_of_ones(group);
  });
  on_ranks(2, [](Backend& group) {
    group.communicator();
    const std::string error = error_of([&] { group.reconfigure_to(1, {group.reconfigure_handle()}, 1s); });
    EXPECT_TRUE(contains(error, "communicators of its own")) << error;
  });
}

TEST(Reconfigured, AHookForgetsWhatItKeptOfOtherMembers) {
  Processes all(3);
  all.run([&](int process, Backend& group) {
    const auto averages = std::make_shared<BucketAverages>(codec::CodecOptions{.name = "fp16"});
    const auto mean = [&] {
      const at::Tensor numbers = at::full({100}, static_cast<float>(process));
      group.average(averages, 0, numbers, {.shapes = {{100}}})->wait();
      return numbers[99].item<float>();
    };
    group.reconfigure_to(1, all.of({0, 1, 2}), 60s);
    EXPECT_EQ(mean(), 1);
    if (process == 1) return;
    group.reconfigure_to(2, all.of({0, 2}), 60s);
    EXPECT_EQ(mean(), 1);
    group.reconfigure_to(3 + process, all.of({process}), 60s);
    EXPECT_EQ(mean(), static_cast<float>(process));
  });
}

TEST(Reconfigured, HandlesBeginWithTheRankThatAProcessFirstHad) {
  Processes all(2);
  all.run(
      [&](int process, Backend& group) {
        EXPECT_TRUE(group.reconfigure_handle().starts_with(text("ripieno:", 4 + process, ":")));
        group.reconfigure_to(1, all.of({1, 0}), 60s);
        const std::vector<std::uint64_t> wanted{5, 4};
        EXPECT_EQ(group.getBackendOptions()->global_ranks_in_group, wanted);
      },
      {4, 5});
  EXPECT_NE(all.handles[0], all.handles[1]);
}

TEST(Groups, PartsOfAGroupAreGroups) {
  const auto store = c10::make_intrusive<::c10d::HashStore>();
  on_ranks(4, [&](Backend& group) {
    const std::vector<int> odd{3, 1};
    const auto part = group.split(c10::make_intrusive<::c10d::HashStore>(), {group.getRank()}, nullptr);
    EXPECT_EQ(part->getSize(), 1);
    const auto pair = group.split(store, odd, nullptr);
    ASSERT_EQ(bool(pair), group.getRank() % 2 == 1);
    if (!pair) return;
    EXPECT_EQ(pair->getRank(), group.getRank() == 3 ? 0 : 1);
    Tensors tensors{at::full({2}, group.getRank())};
    pair->allreduce(tensors, {})->wait();
    EXPECT_TRUE(tensors[0].eq(4).all().item<bool>());
  });
}

TEST(Groups, AreMergedIntoOne) {
  const auto store = c10::make_intrusive<::c10d::HashStore>();
  std::vector<std::thread> threads;
  for (int process = 0; process < 3; ++process) {
    threads.emplace_back([&, process] {
      try {
        // {0, 1} and {2}, of which 2 becomes the first of all.
        const auto own = c10::make_intrusive<::c10d::PrefixStore>(process < 2 ? "pair" : "single", store);
        Backend group(own, process % 2, process < 2 ? 2 : 1, within(60s));
        expect_sum_of_ones(group);
        const auto common = c10::make_intrusive<::c10d::PrefixStore>("all", store);
        const auto all = group.merge(common, nullptr, (process + 1) % 3, 3);
        auto& merged = dynamic_cast<Backend&>(*all);
        EXPECT_EQ(merged.getRank(), (process + 1) % 3);
        EXPECT_EQ(merged.getSize(), 3);
        expect_sum_of_ones(merged);
        expect_sum_of_ones(group);
        merged.barrier({})->wait();
      } catch (const std::exception& error) {
        ADD_FAILURE() << "process " << process << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ripieno::c10d
