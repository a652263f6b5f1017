// A group and the process that made it: forks, a process that comes again, and what PyTorch takes from it.
#include <ATen/ATen.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranks.h"
#include "ripieno/c10d/store_meeting.h"
#include "ripieno/transport/shared/hello.h"

namespace ripieno::c10d {
namespace {

using namespace std::chrono_literals;

TEST(Group, ARankWhoseProcessHasEndedMayComeAgain) {
  const int ended = ::fork();
  if (ended == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(ended, nullptr, 0), ended);
  std::array<char, 64> host{};
  ::gethostname(host.data(), host.size() - 1);
  const auto meet_after = [&](int process, int size) {
    const auto store = c10::make_intrusive<::c10d::HashStore>();
    const std::string of = text("process ", process, " on ", host.data(), "\n", transport::host_identity());
    store->set("ripieno/claim/0", std::vector<std::uint8_t>(of.begin(), of.end()));
    meet_by_store(*store, {.rank = 0, .size = size}, 200ms);
  };
  const auto error_after = [&](int process) { return error_of([&] { meet_after(process, 2); }); };
  EXPECT_TRUE(contains(error_after(ended), "rank 1")) << error_after(ended);  // which does not come
  const std::string error = error_after(::getppid());
  EXPECT_TRUE(contains(error, text("rank 0 of the group has come twice, as process ", ::getppid(), " on "))) << error;
  // Alone it waits for nobody: PyTorch's groups of one rank may have one name in several processes at once.
  EXPECT_NO_THROW(meet_after(::getppid(), 1));
}

TEST(Group, AForkCannotTakeItsParentsPlace) {
  on_ranks(1, [](Backend& group) {
    const int fork = ::fork();
    if (fork == 0) {
      const std::string line = error_of([&] { all_reduced(group, at::ones({4})); });
      ::_exit(contains(line, "is a fork of process") && contains(line, "rank 0 of this group") ? 0 : 1);
    }
    int code = -1;
    ASSERT_EQ(::waitpid(fork, &code, 0), fork);
    EXPECT_EQ(code, 0);
    all_reduced(group, at::ones({4}));
  });
}

TEST(Group, ItsOptionsAreACopy) {
  on_ranks(1, [](Backend& group) {
    const auto before = group.getBackendOptions()->timeout;
    group.getBackendOptions()->timeout = 1ms;  // as PyTorch does for a group that it splits off
    EXPECT_EQ(group.getBackendOptions()->timeout, before);
  });
}

}  // namespace
}  // namespace ripieno::c10d
