// Parameter servers in a loop of one's own: they hold the weights and the optimiser's state, and go at the loops'
// paces.
#include <atomic>
#include <thread>

#include "tests/loop/line.h"

namespace ripieno::loop {
namespace {

using namespace std::chrono_literals;

TEST(AgreeServers, WeightsThatTheyWouldOverwriteAreTold) {
  for (const char* strategy : {"ps-sync", "ps-async"}) {
    std::atomic<int> there{0};
    on_loop_ranks(2, [&](const ProcessGroup& group) {
      AgreeingRank mine(group);
      Agreement agreement = agree(mine.line, mine.optimiser, group, strategy);
      mine.take(agreement, 2);
      ++there;
      while (there < 2) std::this_thread::yield();  // else one may hear of the other's error in its second step
      {
        const torch::NoGradGuard no_grad;
        mine.line->weight.clamp_(-0.1, 0.1);
      }
      expect_part(first_line_of_error([&] { mine.take(agreement); }),
                  "parameter weight was changed before step() number 3 (loaded, clipped, or by its optimiser?)");
    });
  }
}

TEST(AgreeServers, HaveNoUseForBeforeUpdate) {
  on_loop_ranks(1, [&](const ProcessGroup& group) {
    AgreeingRank mine(group);
    const AgreeOptions options{.before_update = [] {}};
    expect_part(first_line_of_error([&] { agree(mine.line, mine.optimiser, group, "ps-sync", options); }),
                "before_update has no effect with ps-sync");
  });
}

TEST(AgreeServers, OptionsOfTheOptimiserThatChangeAreTold) {
  on_loop_ranks(1, [&](const ProcessGroup& group) {
    AgreeingRank mine(group);
    torch::optim::SGD optimiser({mine.line->weight}, torch::optim::SGDOptions(0.1).momentum(0.9));
    Agreement agreement = agree(mine.line, optimiser, group, "ps-sync");
    auto& options = static_cast<torch::optim::SGDOptions&>(optimiser.param_groups()[0].options());
    options.lr(0.05);
    mine.take(agreement, 2);
    options.momentum(0.85);
    expect_part(first_line_of_error([&] { mine.take(agreement); }),
                "the optimiser is sgd with momentum 0.85, nesterov 0, weight decay 0 before step() number 3, and the "
                "parameter servers have stepped as sgd with momentum 0.9, nesterov 0, weight decay 0 since agree()");
  });
}

TEST(AgreeServers, WhoEndsFirstWaitsAsLongAsTheOthersTrain) {
  on_loop_ranks(2, [&](const ProcessGroup& group) {
    AgreeingRank mine(group);
    group->setTimeout(2s);  // of a wait
    Agreement agreement = agree(mine.line, mine.optimiser, group, "ps-async");
    for (int step = 0; step < (mine.rank == 0 ? 8 : 1); ++step) {
      std::this_thread::sleep_for(500ms);
      mine.take(agreement);
    }
    agreement.finish();
  });
}

}  // namespace
}  // namespace ripieno::loop
