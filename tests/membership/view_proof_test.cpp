// The guarantees of view.h over all interleavings: in every world that a first view can become, whatever arrives when.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/membership/view_world.h"

namespace ripieno::membership {
namespace {

struct Proof {
  int seats;
  bool has_witness;
  testing::Chances chances;
  std::size_t worlds;  // so many there are
};

class ViewProof : public ::testing::TestWithParam<Proof> {};

void expect_holds(const Proof& proof) {
  const testing::Exploration all =
      testing::ViewWorlds(proof.seats, proof.has_witness, proof.chances).explore(proof.worlds);
  std::string trail;
  for (const std::string& what : all.trail) trail += "\n  " + what;
  EXPECT_EQ(all.violation, "") << trail;
  EXPECT_EQ(all.worlds, proof.worlds);
  EXPECT_GT(all.ends, 0u);
}

TEST_P(ViewProof, HoldsInEveryWorld) { expect_holds(GetParam()); }

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which it would take minutes
TEST(ViewProof, HoldsForFourOfWhomSomeDieAndOneIsSuspected) {
  // With two deaths, the leader's among them, it takes most of a minute: scripts/test full.
  if (std::getenv("RIPIENO_FULL")) {
    expect_holds({4, false, {2, 1, 0}, 23'241'312});
  } else {
    expect_holds({4, false, {1, 1, 0}, 3'864'108});
  }
}
#endif

std::string named(const ::testing::TestParamInfo<Proof>& info) {
  const Proof& proof = info.param;
  return text("Of", proof.seats, proof.has_witness ? "AndAWitness" : "", "With", proof.chances.deaths, "Deaths",
              proof.chances.suspicions, "Suspicions", proof.chances.cuts, "Cuts");
}

INSTANTIATE_TEST_SUITE_P(Views, ViewProof,
                         ::testing::Values(Proof{2, false, {2, 1, 0}, 111}, Proof{2, true, {2, 1, 1}, 32170},
                                           Proof{2, true, {0, 0, 2}, 886}, Proof{3, false, {2, 1, 0}, 76559},
                                           Proof{3, true, {2, 1, 0}, 117880}, Proof{3, false, {1, 0, 1}, 7906},
                                           Proof{3, false, {0, 1, 1}, 89733}, Proof{3, true, {1, 0, 1}, 10333},
                                           Proof{4, false, {2, 0, 0}, 7878}, Proof{4, true, {2, 0, 0}, 105623},
                                           Proof{4, false, {0, 1, 0}, 146700}, Proof{4, false, {0, 0, 1}, 8065},
                                           Proof{4, true, {0, 0, 1}, 234727}),
                         named);

}  // namespace
}  // namespace ripieno::membership
