// Messages with tags: order, senders, sizes, limits.
#include "ranks.h"

namespace ripieno::c10d {
namespace {

using namespace std::chrono_literals;

TEST(TaggedMessages, AreFoundByTagAndSender) {
  on_ranks(3, [](Backend& group) {
    const int rank = group.getRank();
    if (rank > 0) {
      for (const int tag : {1, 2, 1}) send(group, number(10 * rank + tag), 0, tag);
      send(group, number(100 * rank), 0, 7);
    } else {
      EXPECT_EQ(received(group, 2, 2), 22);
      EXPECT_EQ(received(group, 1, 1), 11);
      EXPECT_EQ(received(group, 1, 2), 12);
      double sum = 0;
      for (int i = 0; i < 2; ++i) {
        const at::Tensor any = at::zeros({1}, at::kDouble);
        const Handle work = begin_receive(group, any, -1, 7);
        work->wait();
        EXPECT_EQ(any.item<double>(), 100 * work->sourceRank());
        sum += any.item<double>();
      }
      EXPECT_EQ(sum, 300);
      EXPECT_EQ(received(group, 1, 1), 11) << "the second of this tag";
    }
    group.barrier({})->wait();
  });
}

TEST(TaggedMessages, AMessageThatNobodyReceivesYetKeepsNothingBack) {
  on_ranks(2, [](Backend& group) {
    const int other = 1 - group.getRank();
    Tensors large{at::full({30'000'000}, group.getRank() + 1.F)};  // more than a link's credit
    const Handle sending = group.send(large, other, 3);
    EXPECT_TRUE(all_reduced(group, at::ones({5})).eq(2).all().item<bool>());
    EXPECT_FALSE(sending->isCompleted());
    send(group, number(other), other, 4);
    EXPECT_EQ(received(group, other, 4), group.getRank());
    const at::Tensor theirs = at::empty({30'000'000});
    begin_receive(group, theirs, other, 3)->wait();
    sending->wait();
    EXPECT_TRUE(theirs.eq(other + 1).all().item<bool>());
  });
}

TEST(TaggedMessages, ManyMessagesOfOneTagStayInOrder) {
  constexpr int count = 3000;  // more than a link's credit, all sent before the first is received
  on_ranks(2, [](Backend& group) {
    if (group.getRank() == 0) {
      std::vector<Handle> works;
      for (int i = 0; i < count; ++i) {
        Tensors message{at::full({8192 - i % 3}, i)};
        works.push_back(group.send(message, 1, 0));
      }
      group.barrier({})->wait();
      for (const Handle& work : works) work->wait();
    } else {
      group.barrier({})->wait();
      for (int i = 0; i < count; ++i) {
        const at::Tensor message = at::zeros({8192 - i % 3}, at::kLong);
        begin_receive(group, message, i % 2 == 0 ? 0 : -1, 0)->wait();
        ASSERT_TRUE(message.eq(i).all().item<bool>()) << i;
      }
    }
  });
}

TEST(TaggedMessages, AMessageOfAnotherTypeOfAsManyBytesIsAnError) {
  on_ranks(2, [](Backend& group) {
    if (group.getRank() == 1) return send(group, at::zeros({4}, at::kShort), 0, 1);
    EXPECT_EQ(error_of([&] { begin_receive(group, at::zeros({8}, at::kChar), 1, 1)->wait(); }),
              "rank 0: receives 8 Char with tag 1, but rank 1 sent 4 Short");
  });
}

TEST(TaggedMessages, AMessageOfAnotherSizeIsAnErrorOfItsReceiverAlone) {
  on_ranks(2, [](Backend& group) {
    const int rank = group.getRank();
    for (const std::int64_t elements : {5, 50'000}) {  // sent at once, and on a grant
      if (rank == 1) {
        Tensors message{at::ones({elements})};
        const Handle sending = group.send(message, 0, 1);
        if (elements > 5) {
          const std::string error = error_of([&] { sending->wait(); });
          EXPECT_EQ(error, "rank 1: sends 50000 fp32 with tag 1, but rank 0 receives 3 fp32");
        } else {
          sending->wait();
        }
      } else {
        const std::string error = error_of([&] { begin_receive(group, at::ones({3}), 1, 1)->wait(); });
        EXPECT_EQ(error, text("rank 0: receives 3 fp32 with tag 1, but rank 1 sent ", elements, " fp32"));
      }
      send(group, number(rank), 1 - rank, 2);
      EXPECT_EQ(received(group, 1 - rank, 2), 1 - rank) << "others go on";
    }
  });
}

TEST(TaggedMessages, AReceiveThatTakesTooLongFailsAlone) {
  on_ranks(2, [](Backend& group) {
    if (group.getRank() == 0) {
      group.setTimeout(100ms);
      const std::string error = error_of([&] { received(group, 1, 5); });
      EXPECT_EQ(error, "rank 0: nothing came from rank 1 with tag 5 within 0.1 s");
      group.setTimeout(60s);
    }
    EXPECT_TRUE(all_reduced(group, at::ones({5})).eq(2).all().item<bool>());
  });
}

TEST(TaggedMessages, ALargeMessageThatIsNotReceivedInTimeEndsAllMessagesOfTheGroup) {
  // Its receiver may ask for it later, and would wait in vain.
  std::atomic<int> gave_up{0};
  on_ranks(2, [&](Backend& group) {
    const std::string reason = "rank 1 has not received 50000 fp32 with tag 5 within 0.1 s";
    if (group.getRank() == 0) {
      group.setTimeout(100ms);
      Tensors large{at::ones({50'000})};
      EXPECT_EQ(error_of([&] { group.send(large, 1, 5)->wait(); }), "rank 0: " + reason);
      EXPECT_TRUE(contains(error_of([&] { received(group, 1, 6); }), reason));
      ++gave_up;
    } else {
      await(gave_up);
      const at::Tensor late = at::empty({50'000});
      EXPECT_EQ(error_of([&] { begin_receive(group, late, 0, 5)->wait(); }), "rank 1: rank 0 gave up: " + reason);
    }
  });
}

TEST(TaggedMessages, SmallMessagesThatNobodyTakesHaveALimit) {
  std::atomic<int> gave_up{0};
  on_ranks(2, [&](Backend& group) {
    if (group.getRank() == 0) {
      group.setTimeout(200ms);
      const std::string error = error_of([&] {
        for (int i = 0; i < 10'000; ++i) send(group, at::ones({1000}), 1, 5);  // more than fits anywhere
      });
      EXPECT_TRUE(contains(error, "rank 1 has not received 1000 fp32 with tag 5 within 0.2 s")) << error;
      ++gave_up;
    } else {
      await(gave_up);
    }
  });
}

}  // namespace
}  // namespace ripieno::c10d
