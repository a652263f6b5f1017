// What a c10d group promises beside its collectives: order, futures, limits, errors and ends.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <atomic>

#include "ranks.h"
#include "ripieno/c10d/store_meeting.h"

namespace ripieno::c10d {
namespace {

using namespace std::chrono_literals;

TEST(Group, ManyOperationsAreInFlightAtOnce) {
  on_ranks(3, [](Backend& group) {
    Tensors tensors;
    std::vector<Handle> works;
    for (int i = 0; i < 100; ++i) {
      tensors.push_back(at::full({i % 7 == 0 ? 50'000 : 10}, i + group.getRank()));
      works.push_back(begin_sum(group, tensors.back()));
    }
    for (int i = 99; i >= 0; --i) {
      works[std::size_t(i)]->wait();
      EXPECT_TRUE(works[std::size_t(i)]->isCompleted());
      EXPECT_TRUE(tensors[std::size_t(i)].eq(3 * i + 3).all().item<bool>()) << i;
    }
    EXPECT_EQ(group.getSequenceNumberForGroup(), 100);
    EXPECT_EQ(works[41]->getSequencenumber(), 41);
  });
}

TEST(Group, AFutureMayWaitForAnotherOperationInItsCallback) {
  on_ranks(2, [](Backend& group) {
    // As PowerSGD does: several buckets, whose callbacks each start another exchange and wait for it.
    std::vector<c10::intrusive_ptr<c10::ivalue::Future>> all;
    for (int i = 0; i < 5; ++i) {
      const at::Tensor first = at::full({100}, i + 1.);
      const auto work = begin_sum(group, first);
      all.push_back(work->getFuture());
      EXPECT_EQ(work->getFuture(), all.back());
    }
    std::atomic<int> called{0};
    for (int i = 0; i < 5; ++i) {
      all[std::size_t(i)]->addCallback([&, i](c10::ivalue::Future& future) {
        EXPECT_TRUE(future.value().toTensorVector()[0].eq(2 * (i + 1)).all().item<bool>());
        EXPECT_TRUE(all_reduced(group, at::ones({10})).eq(2).all().item<bool>());
        ++called;
      });
    }
    await(called, 5);
  });
}

TEST(Group, ABarrierEndsAfterAllThatWasAskedBefore) {
  on_ranks(3, [](Backend& group) {
    std::vector<Handle> works;
    const at::Tensor tensor = at::ones({300'000});
    for (int i = 0; i < 4; ++i) works.push_back(begin_sum(group, tensor.clone()));
    group.barrier({})->wait();
    for (const Handle& work : works) EXPECT_TRUE(work->isCompleted());
  });
}

TEST(Group, LeavesTheCallersGradAndInferenceModesAlone) {
  on_ranks(2, [](Backend& group) {
    const int other = 1 - group.getRank();
    for (int i = 0; i < 20; ++i) {
      Tensors tensors{at::ones({3}), at::ones({4})};
      const Handle work = group.allreduce_coalesced(tensors, {});
      send(group, number(1), other, 0);
      received(group, other, 0);
      ASSERT_TRUE(at::GradMode::is_enabled());
      work->wait();
      ASSERT_TRUE(at::GradMode::is_enabled());
      const c10::InferenceMode inference;
      Tensors strided{at::ones({4, 4}).t().slice(0, 0, 2)};
      group.allreduce(strided, {})->wait();
      ASSERT_TRUE(strided[0].eq(2).all().item<bool>());
    }
  });
}

TEST(Group, ARankThatListenedToAllIsMissedWhenItEnds) {
  on_ranks(3, [](Backend& group) {
    if (group.getRank() == 0) {
      received(group, -1, 1);  // and listens to the other on
    } else if (group.getRank() == 1) {
      send(group, number(1), 0, 1);
      EXPECT_TRUE(contains(error_of([&] { received(group, 0, 1); }), "rank 0"));
    } else {
      EXPECT_TRUE(contains(error_of([&] { received(group, 0, 1); }), "rank 0"));
    }
  });
}

TEST(Group, AnOperationThatTakesTooLongNamesThoseItWaitsFor) {
  std::atomic<int> late{0};
  on_ranks(3, [&](Backend& group) {
    all_reduced(group, at::ones({5}));
    if (group.getRank() == 1) {
      await(late, 2);
      const std::string error = error_of([&] {
        all_reduced(group, at::ones({5}));  // over TCP the others' parts may have come before
        all_reduced(group, at::ones({5}));
      });
      EXPECT_TRUE(contains(error, "gave up")) << error;
      return;
    }
    Tensors tensors{at::ones({5})};
    ::c10d::AllreduceOptions options;
    options.timeout = 200ms;
    const std::string error = error_of([&] { group.allreduce(tensors, options)->wait(); });
    EXPECT_TRUE(contains(error,
                         "ripieno:all_reduce number 1 of CPUFloatType[5] has timed out after its timeout of 0.2 s: it "
                         "waits for rank 1") ||
                contains(error, "gave up"))
        << error;
    ++late;
    EXPECT_EQ(group.getError(), ::c10d::ErrorType::COMM_ERROR);
    EXPECT_TRUE(contains(error_of([&] { all_reduced(group, at::ones({5})); }), "timed out")) << "the group has ended";
  });
}

/// What two ranks do at once; both get an error, and one names what each of them does.
void expect_told(const std::function<void(Backend&)>& act, const std::string& one, const std::string& other) {
  std::array<std::string, 2> errors;
  on_ranks(2, [&](Backend& group) { errors[std::size_t(group.getRank())] = error_of([&] { act(group); }); });
  const auto names_both = [&](const std::string& error) { return contains(error, one) && contains(error, other); };
  EXPECT_TRUE(names_both(errors[0]) || names_both(errors[1])) << errors[0] << "\n" << errors[1];
}

TEST(Group, ALimitEndsWhatAPeerThatHangsCouldStillReadInPlace) {
  std::atomic<int> gave_up{0};
  on_ranks(2, [&](Backend& group) {
    const at::Tensor mine = group.allocateTensor(1'000'000, at::kBFloat16);
    all_reduced(group, mine.zero_());
    if (group.getRank() == 1) return await(gave_up);
    group.setTimeout(200ms);
    EXPECT_TRUE(contains(error_of([&] { all_reduced(group, mine); }), "has timed out"));
    ++gave_up;
  });
}

TEST(Group, ARootThatEndsRightAfterItsBroadcastIsMissed) {
  const auto store = c10::make_intrusive<::c10d::HashStore>();
  std::atomic<int> gone{0};
  on_ranks(2, [&](Backend& around) {
    auto group = c10::make_intrusive<Backend>(store, around.getRank(), 2, within(std::chrono::seconds(60)));
    Tensors mine{at::full({4}, around.getRank())};
    if (around.getRank() == 0) {
      group->broadcast(mine, {})->wait();
      group.reset();  // before it has heard which root rank 1 has
      ++gone;
    } else {
      await(gone);
      group->broadcast(mine, {})->wait();
      EXPECT_EQ(mine[0].sum().item<int>(), 0);
      const std::string line = error_of([&] { all_reduced(*group, at::ones({4})); });
      EXPECT_TRUE(contains(line, "lost rank 0")) << line;
    }
  });
}

TEST(Group, WhatComesAfterAMismatchGetsTheSameError) {
  on_ranks(2, [](Backend& group) {
    const at::Tensor mine = at::ones({4 + group.getRank()});
    const std::string first = error_of([&] { all_reduced(group, mine); });
    const std::string later = error_of([&] { group.barrier({})->wait(); });
    EXPECT_EQ(first.rfind(later, 0), 0u) << first << "\n" << later;  // without the first's own call
  });
}

TEST(Group, RanksThatGiveOtherRootsAreToldAtOnce) {
  // Only rank 2 has another root. By their messages alone two of these wait, and of the others nobody notices.
  const auto root = [](const Backend& group) { return group.getRank() == 2 ? 1 : 0; };
  const auto told = [](const std::string& operation, const std::function<void(Backend&, Tensors&)>& act) {
    on_ranks(3, [&](Backend& group) {
      const std::string line = error_of([&] {
        Tensors mine{at::ones({4})};
        act(group, mine);
        group.barrier({})->wait();  // two of the three notice it here
        group.barrier({})->wait();
      });
      EXPECT_TRUE(contains(line, operation + " number 0 with root 1")) << line;
      EXPECT_TRUE(contains(line, operation + " number 0 with root 0")) << line;
    });
  };
  told("broadcast", [&](Backend& group, Tensors& mine) {
    ::c10d::BroadcastOptions options;
    options.rootRank = root(group);
    group.broadcast(mine, options)->wait();
  });
  told("reduce", [&](Backend& group, Tensors& mine) {
    ::c10d::ReduceOptions options;
    options.rootRank = root(group);
    group.reduce(mine, options)->wait();
  });
  told("gather", [&](Backend& group, Tensors& mine) {
    ::c10d::GatherOptions options;
    options.rootRank = root(group);
    std::vector<Tensors> all;
    if (group.getRank() == options.rootRank) all.emplace_back(3, at::ones({4}));
    group.gather(all, mine, options)->wait();
  });
}

TEST(Group, RanksThatDifferAreToldAtOnce) {
  expect_told([](Backend& group) { all_reduced(group, at::ones({group.getRank() == 0 ? 5 : 6})); }, "5 fp32", "6 fp32");
  expect_told(
      [](Backend& group) { all_reduced(group, at::ones({5}, group.getRank() == 0 ? at::kFloat : at::kDouble)); },
      "5 fp32", "5 fp64");
  const auto different = [](Backend& group) {
    Tensors tensors{at::ones({5})};
    if (group.getRank() == 0) {
      all_reduced(group, tensors[0]);
    } else {
      group.broadcast(tensors, {})->wait();
    }
  };
  expect_told(different, "broadcast 0", "all_reduce sum");
  const auto other_operation = [](Backend& group) {
    all_reduced(group, at::ones({5}), group.getRank() == 0 ? ::c10d::ReduceOp::SUM : ::c10d::ReduceOp::AVG);
  };
  expect_told(other_operation, "all_reduce sum", "all_reduce avg");
  const auto other_type = [](Backend& group) {
    at::Tensor mine = group.getRank() == 0 ? at::zeros({8}, at::kBool) : at::zeros({4}, at::kShort);
    at::Tensor all = mine.repeat({2});
    group._allgather_base(all, mine, {})->wait();
  };
  expect_told(other_type, "Bool", "Short");
  const auto other_combination = [](Backend& group) {
    all_reduced(group, at::ones({4}, at::kShort), group.getRank() == 0 ? ::c10d::ReduceOp::SUM : ::c10d::ReduceOp::MAX);
  };
  expect_told(other_combination, "Shor sum", "Shor max");
  const auto no_barrier = [](Backend& group) {
    if (group.getRank() == 0) return void(group.barrier({})->wait());
    all_reduced(group, at::ones({1}));
  };
  expect_told(no_barrier, "barrier", "all_reduce sum");
}

TEST(Group, ARankThatLeavesIsMissed) {
  on_ranks(3, [](Backend& group) {
    if (group.getRank() == 2) return;
    const std::string error = error_of([&] { all_reduced(group, at::ones({5})); });
    EXPECT_TRUE(contains(error, "rank 2")) << error;
  });
}

TEST(Group, AMonitoredBarrierNamesWhoIsMissing) {
  on_ranks(4, [](Backend& group) {
    ::c10d::BarrierOptions options;
    group.monitoredBarrier(options, false);
    options.timeout = 1s;
    const auto barrier = [&](bool wait_for_all) {
      return error_of([&] { group.monitoredBarrier(options, wait_for_all); });
    };
    if (group.getRank() == 0) {
      EXPECT_EQ(barrier(false), "Rank 1 failed to pass monitoredBarrier in 1000 ms");
      EXPECT_EQ(barrier(true), "Ranks 1, 3 failed to pass monitoredBarrier in 1000 ms");
    } else if (group.getRank() == 2) {
      for (const bool wait_for_all : {false, true}) {
        const std::string error = barrier(wait_for_all);
        EXPECT_TRUE(contains(error, "rank 1 has not come")) << error;
      }
    }
    EXPECT_TRUE(all_reduced(group, at::ones({1})).eq(4).all().item<bool>()) << "the group goes on";
  });
}

TEST(Group, RanksThatDoNotComeAreNamed) {
  const auto store = c10::make_intrusive<::c10d::HashStore>();
  const auto options = within(200ms);
  options->group_name = "pipeline";
  const std::string error = error_of([&] { const Backend group(store, 1, 4, options); });
  EXPECT_EQ(error, "rank 1 of group pipeline: ranks 0, 2, 3 of its 4 have not come within 0.2 s");
}

TEST(Group, TheFirstThatHasComeSaysForWhomItWaits) {
  const auto store = c10::make_intrusive<::c10d::HashStore>();
  const auto said_by = [&](int rank) {
    ::testing::internal::CaptureStderr();
    const GroupPlace place{.rank = rank, .size = 4, .quiet = 50ms};
    const std::string error = error_of([&] { meet_by_store(*store, place, 200ms); });
    EXPECT_TRUE(contains(error, " not come within 0.2 s")) << error;
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said_by(1), "ripieno: rank 1 of the group waits for ranks 0, 2, 3 of its 4, for up to 0.2 s\n");
  EXPECT_EQ(said_by(2), "");
  EXPECT_EQ(said_by(0), "ripieno: rank 0 of the group waits for rank 3 of its 4, for up to 0.2 s\n");
}

TEST(Group, WhatIsInFlightEndsWithItsGroup) {
  Handle pending;
  std::atomic<int> ended{0};
  on_ranks(2, [&](Backend& group) {
    if (group.getRank() == 0) {
      pending = begin_receive(group, at::zeros({1}), 1, 1);
      group.shutdown();
      ++ended;
    } else {
      await(ended);
    }
  });
  const std::string error = error_of([&] { pending->wait(); });
  EXPECT_TRUE(contains(error, "the group has ended")) << error;
}

TEST(Group, AnAbortEndsWhatIsInFlightOnAllRanks) {
  std::atomic<int> aborted{0};
  on_ranks(2, [&](Backend& group) {
    if (group.getRank() == 0) {
      const Handle work = begin_sum(group, at::ones({5}));
      group.abort();
      ++aborted;
      EXPECT_TRUE(contains(error_of([&] { work->wait(); }), "aborted"));
    } else {
      await(aborted);
      const std::string error = error_of([&] {
        all_reduced(group, at::ones({5}));  // over TCP rank 0's part may have come before
        all_reduced(group, at::ones({5}));
      });
      EXPECT_TRUE(contains(error, "rank 0") && contains(error, "aborted")) << error;
    }
  });
}

TEST(Group, AnAbortTellsTheOthersAlsoWhereNothingIsInFlight) {
  on_ranks(2, [&](Backend& group) {
    if (group.getRank() == 0) {
      group.abort();
    } else {
      const std::string error = error_of([&] { received(group, 0, 3); });
      EXPECT_TRUE(contains(error, "rank 0") && contains(error, "aborted")) << error;
    }
  });
  on_ranks(1, [&](Backend& group) {
    const Handle never = begin_receive(group, at::zeros({1}), -1, 3);
    group.abort();
    EXPECT_TRUE(contains(error_of([&] { never->wait(); }), "aborted"));
  });
}

TEST(Group, CoalescedOperationsHaveOneWork) {
  on_ranks(2, [](Backend& group) {
    const int other = 1 - group.getRank();
    group.startCoalescing();
    begin_sum(group, at::ones({3}));
    group.startCoalescing();  // as after a block that an error has ended: what it had begun is not waited for
    Tensors out{at::full({40'000}, 1.F)}, in{at::zeros({40'000})};
    group.send(out, other, 0);
    group.recv(in, other, 0);
    const at::Tensor sum = at::ones({3});
    begin_sum(group, sum);
    group.endCoalescing()->wait();
    EXPECT_TRUE(in[0].eq(1).all().item<bool>());
    EXPECT_TRUE(sum.eq(2).all().item<bool>());
    EXPECT_TRUE(contains(error_of([&] { group.endCoalescing(); }), "without"));
  });
}

TEST(Group, MemoryOfTheGroupIsExchangedInPlace) {
  on_ranks(2, [](Backend& group) {
    const at::Tensor tensor = group.allocateTensor(100'000, at::kFloat);
    tensor.fill_(group.getRank() + 1);
    EXPECT_TRUE(all_reduced(group, tensor).eq(3).all().item<bool>());
    EXPECT_GT(group.ledger().total().payload_sent, 100'000);
  });
}

}  // namespace
}  // namespace ripieno::c10d
