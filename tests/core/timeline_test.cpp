#include "ripieno/core/timeline.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>

#include "ripieno/core/queue_of.h"
#include "ripieno/core/random.h"

namespace ripieno {
namespace {

TEST(Timeline, IsOrderedByTimeAndThenBySequenceWhateverIsRemoved) {
  Random random(1, 0);
  for (int times : {1, 3, 100, 100000}) {  // from all at one time to all at others
    Timeline timeline;
    std::map<std::pair<std::int64_t, std::uint64_t>, Timeline::Id> expected;
    std::vector<std::uint64_t> fired;
    std::int64_t now = 0;
    std::uint64_t sequence = 0;
    for (int i = 0; i < 20000; ++i) {
      const auto what = random.below(5);
      if (what < 3 || expected.empty()) {
        const std::int64_t when = now + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(times)));
        const std::uint64_t mine = sequence++;
        expected[{when, mine}] = timeline.add(Duration(when), [&fired, mine] { fired.push_back(mine); });
      } else if (what == 3) {
        auto one = expected.begin();
        std::advance(one, static_cast<std::ptrdiff_t>(random.below(std::min<std::uint64_t>(expected.size(), 50))));
        timeline.remove(one->second);
        timeline.remove(one->second);  // no error
        expected.erase(one);
      } else {
        Duration when{};
        Callback callback = timeline.take(when);
        callback();
        ASSERT_EQ(when.count(), expected.begin()->first.first);
        ASSERT_EQ(fired.back(), expected.begin()->first.second);
        timeline.remove(expected.begin()->second);  // taken: no error
        expected.erase(expected.begin());
        now = when.count();
      }
      ASSERT_EQ(timeline.empty(), expected.empty());
    }
  }
}

struct AddsMore {
  Timeline* timeline;
  int left;
  void operator()() const {}
  AddsMore(Timeline* timeline, int left) : timeline(timeline), left(left) {}
  AddsMore(AddsMore&& other) noexcept : timeline(std::exchange(other.timeline, nullptr)), left(other.left) {}
  ~AddsMore() {
    if (timeline && left > 0) timeline->add(Duration(1), AddsMore(timeline, left - 1));
  }
};

TEST(Timeline, IsClearedThoughItsCallbacksAddOthers) {
  Timeline timeline;
  timeline.add(Duration(5), AddsMore(&timeline, 3));
  timeline.clear();
  EXPECT_TRUE(timeline.empty());
}

TEST(Callback, OwnsWhatItHoldsOnceHoweverLarge) {
  const auto owned = std::make_shared<int>(0);
  std::array<char, 100> large{};
  for (const bool is_large : {false, true}) {
    Callback empty;
    EXPECT_FALSE(empty);
    Callback one = is_large ? Callback([owned, large] { *owned += 1 + large[0]; }) : Callback([owned] { ++*owned; });
    EXPECT_EQ(owned.use_count(), 2);
    Callback other = std::move(one);
    EXPECT_FALSE(one);
    EXPECT_EQ(owned.use_count(), 2);
    other();
    one = std::move(other);
    one();
    one = nullptr;
    EXPECT_EQ(owned.use_count(), 1);
  }
  EXPECT_EQ(*owned, 4);
}

struct Link {
  int value;
  Link* next;
};

TEST(QueueOf, IsFirstInFirstOut) {
  QueueOf<Link, &Link::next> queue;
  Link a{1, nullptr}, b{2, nullptr}, c{3, nullptr};
  EXPECT_TRUE(queue.empty());
  queue.push(&a);
  queue.push(&b);
  EXPECT_EQ(queue.pop(), &a);
  queue.push(&c);
  EXPECT_EQ(queue.first(), &b);
  EXPECT_EQ(queue.pop(), &b);
  EXPECT_EQ(queue.pop(), &c);
  EXPECT_TRUE(queue.empty());
  queue.push(&a);
  EXPECT_EQ(queue.pop(), &a);
}

}  // namespace
}  // namespace ripieno
