#include "ripieno/launch/starter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "ripieno/launch/process.h"

namespace ripieno::launch {
namespace {

TEST(Starter, IsTheParentIfThatHasNotTheVariables) { EXPECT_EQ(starter({{"NOBODYS_RANK", "1"}}), ::getppid()); }

// Wrappers: a shell and a tool between the launcher and the rank, as in `mpiexec -n 2 sh -c "time ripieno ..; true"`.
TEST(Starter, IsFoundBehindWhatWrapsARank) {
  if (const char* const asked = getenv("STARTER_TEST_RANK")) {
    const std::string found = std::to_string(starter({{"STARTER_TEST_RANK", asked}, {"STARTER_TEST_SIZE", "2"}}));
    EXPECT_EQ(found, getenv("STARTER_TEST_LAUNCHER"));
    return;
  }
  const std::string again = own_program() + " --gtest_filter=Starter.IsFoundBehindWhatWrapsARank";
  const std::string wrapped = "STARTER_TEST_LAUNCHER=" + std::to_string(::getpid()) +
                              " STARTER_TEST_RANK=1 STARTER_TEST_SIZE=2 sh -c 'env sh -c \"" + again +
                              "; exit \\$?\"; exit $?'";
  EXPECT_NO_THROW(run_tool({"env", "sh", "-c", "exec env " + wrapped}));
}

}  // namespace
}  // namespace ripieno::launch
