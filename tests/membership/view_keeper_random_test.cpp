// What members do in worlds drawn from seeds: a seed replays its world.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/membership/view_keeper_world.h"

namespace ripieno::membership {
namespace {

using testing::Fates;
using testing::ViewKeeperWorld;

/// So many seeds, or as many as RIPIENO_SEEDS says.
std::uint64_t seeds(std::uint64_t usual) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  usual /= 20;
#endif
  const char* const wanted = std::getenv("RIPIENO_SEEDS");
  return wanted ? std::strtoull(wanted, nullptr, 10) : usual;
}

void expect_all_well(Fates fates, std::uint64_t count) {
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    ViewKeeperWorld world(seed, fates);
    const std::string violation = world.run();
    std::string events;
    for (const std::string& event : world.events()) events += "\n  " + event;
    ASSERT_EQ(violation, "") << "seed " << seed << events;
  }
}

TEST(ViewsAtRandom, DeathsLeaveOneViewOfAllThatLive) { expect_all_well({true, false, false}, seeds(1000)); }
TEST(ViewsAtRandom, DeathsAndStallsToo) { expect_all_well({true, true, false}, seeds(500)); }
TEST(ViewsAtRandom, DeathsStallsAndCutsToo) { expect_all_well({true, true, true}, seeds(500)); }

TEST(ViewsAtRandom, ASeedReplaysItsWorld) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ViewKeeperWorld one(seed, {true, true, true}), again(seed, {true, true, true});
    EXPECT_EQ(one.run(), again.run());
    EXPECT_EQ(one.events(), again.events());
  }
}

}  // namespace
}  // namespace ripieno::membership
