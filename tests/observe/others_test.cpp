#include "ripieno/observe/others.h"

#include <gtest/gtest.h>

namespace ripieno::observe {
namespace {

TEST(OthersWatch, CountsWhatIsNeitherIdleNorThisProcess) {
  const MachineUsage before{10, 5, 100, 1};
  const CpuSeconds own{3, 1};
  // Of two seconds of CPU time this process took 0.5, others 0.6, and the host gave 0.2 away.
  EXPECT_NEAR(OthersWatch::share(before, own, {10.9, 5.2, 100.7, 1.2}, {3.4, 1.1}), 0.4, 1e-9);
  EXPECT_EQ(OthersWatch::share(before, own, {10.5, 5, 101.5, 1}, {3.5, 1}), 0);
  EXPECT_EQ(OthersWatch::share(before, own, {10.5, 5, 101.5, 1}, {3.6, 1}), 0);  // times are rounded
  EXPECT_EQ(OthersWatch::share(before, own, {10.05, 5, 100, 1}, own), 0);        // too short to tell
  EXPECT_EQ(OthersWatch::share({}, own, {}, own), 0);                            // the system does not say
}

}  // namespace
}  // namespace ripieno::observe
