// Several models of a group: side by side, and one after the other.
#include <malloc.h>

#include "tests/loop/own_nets.h"

namespace ripieno::loop {
namespace {

using Net = torch::nn::Sequential;

/// Its first thread's pass is still open when the second one's begins.
TEST(DdpModels, TwoThreadsAreRefusedBeforeTheyMixPasses) {
  const auto errors = errors_on_ranks(2, [](const ProcessGroup& group) {
    Net first = small_net(1), second = small_net(2);
    DistributedDataParallel one(first, group), other(second, group);
    std::exception_ptr trouble;
    torch::Tensor output = first->forward(batch(one.rank(), 0));
    first->parameters()[0].register_hook([&](const torch::Tensor&) {  // the last gradient of the pass
      std::thread beside([&] {
        try {
          loss_of(second->forward(batch(one.rank(), 0))).backward();
        } catch (...) {
          trouble = std::current_exception();
        }
      });
      beside.join();
    });
    try {
      loss_of(output).backward();
    } catch (const std::exception&) {  // the group has ended
    }
    if (trouble) std::rethrow_exception(trouble);
  });
  int told = 0;
  for (const std::string& error : errors) told += contains(error, "give each model a process group of its own");
  EXPECT_GE(told, 1) << errors[0] << "\n" << errors[1];
}

TEST(DdpModels, MadeAnewLeaveLittleMemory) {
  on_ranks(2, [](const ProcessGroup& group) {
    const auto make = [&](int times) {
      for (int i = 0; i < times; ++i) {
        Net net = small_net();
        DistributedDataParallel ddp(net, group);
        loss_of(net->forward(batch(ddp.rank(), 0))).backward();
      }
    };
    make(10);
    const std::size_t before = ::mallinfo2().uordblks;
    constexpr int models = 50;
    make(models);
    const auto grown = static_cast<double>(::mallinfo2().uordblks) - static_cast<double>(before);
    EXPECT_LT(grown / models, 2 * 6000);  // of both ranks, which are threads
  });
}

}  // namespace
}  // namespace ripieno::loop
