// Ordinary mistakes: each ends at once, with one line that says who and what, or simply works.
#include <future>

#include "tests/loop/own_nets.h"

namespace ripieno::loop {
namespace {

using Net = torch::nn::Sequential;
using torch::nn::Linear;

/// What each rank's loop ends with. Every rank has a net, its optimiser, and a step.
struct Loop {
  explicit Loop(const ProcessGroup& group, DistributedDataParallelOptions options = {})
      : rank(group->getRank()), ddp(net, group, std::move(options)) {}
  void backward(int step = 0) { loss_of(net->forward(batch(rank, step))).backward(); }
  void step(int number) {
    optimiser.zero_grad();
    backward(number);
    optimiser.step();
  }

  int rank;
  Net net = small_net();
  torch::optim::SGD optimiser{net->parameters(), 0.1};
  DistributedDataParallel ddp;
};

std::vector<std::string> errors_of_loops(const std::function<void(Loop&)>& body, int size = 2) {
  return errors_on_ranks(size, [&](const ProcessGroup& group) {
    Loop loop(group);
    body(loop);
  });
}

/// All ranks' errors hold all the parts.
void expect_all(const std::vector<std::string>& errors, const std::vector<std::string>& parts) {
  for (const std::string& error : errors) {
    for (const std::string& part : parts) EXPECT_TRUE(contains(error, part)) << error << "\n  lacks: " << part;
  }
}

TEST(Mistakes, NoModelOrGroup) {
  on_ranks(1, [](const ProcessGroup& group) {
    EXPECT_THROW(DistributedDataParallel(std::shared_ptr<torch::nn::Module>(), group), Error);
    EXPECT_THROW(DistributedDataParallel(small_net(), nullptr), Error);
    EXPECT_THROW(DistributedDataParallel(small_net(), group, {.bucket_cap_mb = 0}), Error);
    EXPECT_THROW(DistributedDataParallel(Net(torch::nn::Tanh()), group), Error);
    EXPECT_THROW(hooks::qsgd(99), Error);
  });
}

TEST(Mistakes, RankOutOfTheWorld) {
  const auto store = c10::make_intrusive<::c10d::HashStore>();
  EXPECT_THROW(init_process_group(store, 2, 2), Error);
}

TEST(Mistakes, RanksThatThinkOfAnotherWorld) {
  const auto store = c10::make_intrusive<::c10d::HashStore>();
  std::vector<std::string> errors(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        init_process_group(store, rank, rank == 0 ? 2 : 3, std::chrono::seconds(60));
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  expect_all(errors, {"2 ranks, says rank 0", "3 ranks, says rank 1", "start all with one world size"});
}

TEST(Mistakes, NoModelOnOneRank) {
  const auto errors = errors_on_ranks(2, [](const ProcessGroup& group) {
    DistributedDataParallel ddp(group->getRank() == 1 ? nullptr : small_net().ptr(), group);
  });
  EXPECT_EQ(errors[1], "there is no model: the pointer to it is null");
  EXPECT_EQ(errors[0], "rank 1 failed in the making of model 1: there is no model: the pointer to it is null");
}

TEST(Mistakes, OtherModel) {
  const auto errors = errors_on_ranks(2, [](const ProcessGroup& group) {
    Net net(Linear(4, group->getRank() == 0 ? 6 : 7));
    DistributedDataParallel ddp(net, group);
  });
  expect_all(errors,
             {"rank 1 has parameter 0.weight of shape [7, 4]", "rank 0 has parameter 0.weight of shape [6, 4]"});
}

TEST(Mistakes, OtherType) {
  const auto errors = errors_on_ranks(2, [](const ProcessGroup& group) {
    Net net = small_net();
    if (group->getRank() == 1) net->to(torch::kFloat32);
    DistributedDataParallel ddp(net, group);
  });
  expect_all(errors, {"rank 1 has parameter 0.weight of shape [6, 4] and type Float where", "type Double"});
}

TEST(Mistakes, OtherOption) {
  const auto errors = errors_on_ranks(2, [](const ProcessGroup& group) {
    DistributedDataParallel ddp(small_net(), group, {.bucket_cap_mb = 25.0 + group->getRank()});
  });
  expect_all(errors, {"bucket_cap_mb 26", "bucket_cap_mb 25"});
}

TEST(Mistakes, FrozenOnOneRank) {
  const auto errors = errors_of_loops([](Loop& loop) {
    loop.step(0);
    if (loop.rank == 1) loop.net->parameters()[2].set_requires_grad(false);
    loop.step(1);
  });
  expect_all(errors, {"rank 1 has parameter 2.weight of shape [5, 6] and type Double, frozen"});
}

TEST(Mistakes, AddedOnOneRank) {
  const auto errors = errors_of_loops([](Loop& loop) {
    loop.step(0);
    if (loop.rank == 1) loop.net->push_back(torch::nn::BatchNorm1d(3));
    loop.net->to(torch::kFloat64);
    loop.step(1);
  });
  expect_all(errors, {"rank 1 has parameter 5.weight of shape [3] and type Double where rank 0 has nothing more",
                      "all ranks must take the same steps with the same model"});
}

TEST(Mistakes, AddedWithOtherNumbers) {
  const auto errors = errors_of_loops([](Loop& loop) {
    Linear more(3, 2);
    more->to(torch::kFloat64);
    fill(*more, loop.rank);
    loop.net->push_back(more);
    loop.step(0);
  });
  expect_all(errors, {"rank 1 holds ", "in 5.weight[", "where rank 0 holds ", "backward pass 1 of model 1"});
}

TEST(Mistakes, BackwardForgottenByOneRank) {
  const auto errors = errors_of_loops([](Loop& loop) {
    for (int step = 0; step < 3; ++step) {
      if (loop.rank == 0 || step != 1) loop.backward(step);
      loop.optimiser.step();
    }
  });
  expect_all(errors, {"rank 1 holds ", "where rank 0 holds ", "in backward pass 2 of model 1"});
}

TEST(Mistakes, ExtraBackwardOnOneRank) {
  const auto errors = errors_of_loops([](Loop& loop) {
    for (int step = 0; step < 4; ++step) {
      loop.step(step);
      if (loop.rank == 1) loop.backward(step);
    }
  });
  expect_all(errors, {"rank 1 holds ", "where rank 0 holds "});
}

TEST(Mistakes, OneRankTakesFewerSteps) {
  const auto errors = errors_of_loops([](Loop& loop) {
    for (int step = 0; step < (loop.rank == 1 ? 2 : 4); ++step) loop.step(step);
  });
  EXPECT_EQ(errors[1], "");
  for (const char* part :
       {"rank 0 is in backward pass 3 of model 1, which not all have reached (for unequal numbers", "lost rank 1"})
    EXPECT_TRUE(contains(errors[0], part)) << errors[0];
}

TEST(Mistakes, OneRankTakesFewerStepsAndThenTheMean) {
  const auto errors = errors_of_loops([](Loop& loop) {
    for (int step = 0; step < (loop.rank == 1 ? 2 : 4); ++step) loop.step(step);
    loop.ddp.mean(torch::ones(1));
  });
  expect_all(errors, {"rank 1 has mean() after backward pass 2 of model 1 where rank 0 has backward pass 3 of model 1",
                      "all ranks must take the same steps"});
}

/// Errors of rank 0 and of rank 1, which hangs after `before`, in a group with a short timeout.
std::vector<std::string> errors_beside_a_hanging_rank(
    const std::function<std::unique_ptr<Loop>(const ProcessGroup&)>& before,
    const std::function<void(const ProcessGroup&, Loop*)>& then) {
  std::promise<void> over;
  const std::shared_future<void> is_over = over.get_future().share();
  return errors_on_ranks(
      2,
      [&](const ProcessGroup& group) {
        const std::unique_ptr<Loop> loop = before(group);
        if (group->getRank() == 1) {
          is_over.wait_for(std::chrono::seconds(8));
          return;
        }
        const std::shared_ptr<void> leaving(nullptr, [&](void*) { over.set_value(); });
        then(group, loop.get());
      },
      std::chrono::seconds(2));
}

TEST(Mistakes, ARankThatMakesNoModel) {
  const auto errors = errors_beside_a_hanging_rank(
      [](const ProcessGroup&) { return nullptr; },
      [](const ProcessGroup& group, Loop*) { DistributedDataParallel ddp(small_net(), group); });
  EXPECT_TRUE(contains(
      errors[0], "rank 0: making a DDP model number 0 has timed out after its timeout of 2 s: it waits for rank 1"))
      << errors[0];
}

TEST(Mistakes, ARankThatHangsBetweenItsSteps) {
  const auto errors = errors_beside_a_hanging_rank(
      [](const ProcessGroup& group) {
        auto loop = std::make_unique<Loop>(group);
        loop->step(0);
        return loop;
      },
      [](const ProcessGroup&, Loop* loop) { loop->step(1); });
  EXPECT_TRUE(
      contains(errors[0], "backward pass 2 of model 1 has timed out after its timeout of 2 s: it waits for rank 1"))
      << errors[0];
}

TEST(Mistakes, ExceptionOnOneRank) {
  const auto errors = errors_of_loops(
      [](Loop& loop) {
        loop.step(0);
        if (loop.rank == 2) throw std::runtime_error("no more data");
        loop.step(1);
      },
      3);
  EXPECT_EQ(errors[2], "no more data");
  for (int rank : {0, 1}) {
    EXPECT_TRUE(contains(errors[static_cast<std::size_t>(rank)], "an exception has ended the loop of rank 2"))
        << errors[static_cast<std::size_t>(rank)];
  }
}

TEST(Mistakes, ExceptionWithinABackwardPass) {
  const auto errors = errors_of_loops([](Loop& loop) {
    loop.step(0);
    torch::Tensor middle = loop.net[1]->as<torch::nn::Tanh>()->forward(loop.net[0]->as<Linear>()->forward(batch(0, 0)));
    torch::Tensor hidden = middle;
    if (loop.rank == 1)
      hidden.register_hook(
          [](const torch::Tensor&) -> torch::Tensor { throw std::runtime_error("broken in the midst"); });
    torch::Tensor output = loop.net[4]->as<Linear>()->forward(torch::tanh(loop.net[2]->as<Linear>()->forward(hidden)));
    try {
      loss_of(output).backward();
    } catch (const std::runtime_error& error) {
      if (loop.rank != 1 || !contains(error.what(), "broken in the midst")) throw;
      loop.step(1);  // as if nothing had happened
    }
  });
  EXPECT_TRUE(contains(errors[1], "an exception broke off backward pass 2 of model 1")) << errors[1];
  EXPECT_TRUE(contains(errors[0], "an exception broke off backward pass 2 of model 1")) << errors[0];
}

TEST(Mistakes, OtherLearningRate) {
  const auto errors = errors_of_loops([](Loop& loop) {
    static_cast<torch::optim::SGDOptions&>(loop.optimiser.param_groups()[0].options()).lr(0.1 + loop.rank);
    for (int step = 0; step < 3; ++step) loop.step(step);
  });
  expect_all(errors, {"rank 1 holds ", "where rank 0 holds ", "the optimiser, its learning rate"});
}

TEST(Mistakes, WeightsLoadedOnOneRank) {
  const auto errors = errors_of_loops([](Loop& loop) {
    loop.step(0);
    if (loop.rank == 1) fill(*loop.net, 77);
    loop.step(1);
  });
  expect_all(errors, {"rank 1 holds ", "in 0.weight[", "backward pass 2 of model 1"});
}

TEST(Mistakes, OneOfManyParametersChangedOnOneRank) {  // of which a pass compares 64
  const auto errors = errors_on_ranks(2, [](const ProcessGroup& group) {
    Net net;
    for (int layer = 0; layer < 40; ++layer) net->push_back(Linear(1, 1));
    DistributedDataParallel ddp(net, group);
    if (ddp.rank() == 1) net->parameters().at(70).data().add_(1);
    for (int pass = 0; pass < 2; ++pass) net->forward(torch::ones({1, 1})).sum().backward();
  });
  expect_all(errors, {"rank 1 holds ", "in 35.weight[0] where rank 0 holds "});
}

TEST(Mistakes, OptimiserStepsBeforeBackwardOnOneRank) {
  const auto errors = errors_of_loops([](Loop& loop) {
    for (int step = 0; step < 4; ++step) {
      if (loop.rank == 1) loop.optimiser.step();
      loop.optimiser.zero_grad();
      loop.backward(step);
      if (loop.rank == 0) loop.optimiser.step();
    }
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");  // the same steps: it works
}

TEST(Mistakes, NoSyncOnOneRank) {
  const auto errors = errors_of_loops([](Loop& loop) {
    for (int step = 0; step < 3; ++step) {
      std::optional<NoSync> accumulating;
      if (loop.rank == 1 && step == 1) accumulating.emplace(loop.ddp);
      loop.step(step);
    }
  });
  expect_all(errors, {"rank 1 holds ", "where rank 0 holds ", "in backward pass 2 of model 1"});
}

TEST(Mistakes, JoinWithoutFinish) {
  const auto errors = errors_of_loops([](Loop& loop) {
    Join join(loop.ddp);
    loop.step(0);
    if (loop.rank == 0) join.finish();
  });
  EXPECT_TRUE(contains(errors[0], "left its Join without finish()")) << errors[0];
}

TEST(Mistakes, TwoModelsInAnotherOrder) {
  const auto errors = errors_on_ranks(2, [](const ProcessGroup& group) {
    Net a = small_net(1), b = small_net(2);
    DistributedDataParallel first(a, group), second(b, group);
    for (Net net : group->getRank() == 0 ? std::vector{a, b} : std::vector{b, a})
      loss_of(net->forward(batch(0, 0))).backward();
  });
  expect_all(errors, {"backward pass 1 of model"});
}

TEST(Mistakes, OneModelTwice) {
  on_ranks(1, [](const ProcessGroup& group) {
    Net net = small_net();
    DistributedDataParallel ddp(net, group);
    EXPECT_THROW(DistributedDataParallel(net, group), Error);
  });
}

TEST(Mistakes, SparseGradients) {
  const auto errors = errors_on_ranks(2, [](const ProcessGroup& group) {
    torch::nn::Embedding net(torch::nn::EmbeddingOptions(5, 3).sparse(true));
    DistributedDataParallel ddp(net, group);
    net(torch::tensor({1, 2})).sum().backward();
  });
  expect_all(errors, {"parameter weight has a sparse gradient"});
}

TEST(Mistakes, BackwardThatKeepsAGraph) {
  const auto errors = errors_of_loops(
      [](Loop& loop) { loss_of(loop.net->forward(batch(0, 0))).backward({}, true, /*create_graph=*/true); });
  expect_all(errors, {"parameter ", "of backward() with create_graph"});
}

TEST(Mistakes, HookWithoutWork) {
  const auto errors = errors_on_ranks(2, [](const ProcessGroup& group) {
    Loop loop(group, {.hook = [](const ProcessGroup&, const GradientBucket&) { return nullptr; }});
    loop.step(0);
  });
  expect_all(errors, {"the hook", "returned no work"});
}

TEST(Mistakes, LossyHookForHalves) {
  const auto errors = errors_on_ranks(2, [](const ProcessGroup& group) {
    Net net = small_net();
    net->to(torch::kBFloat16);
    DistributedDataParallel ddp(net, group, {.hook = hooks::int8()});
    loss_of(net->forward(batch(0, 0, torch::kBFloat16))).backward();
  });
  expect_all(errors, {"codec int8 takes gradients in fp32 or fp64"});
}

TEST(Mistakes, LossThatNeedsNoGradient) {
  const auto errors = errors_of_loops([](Loop& loop) {
    const torch::NoGradGuard no_grad;
    loop.backward();
  });
  EXPECT_TRUE(contains(errors[0] + errors[1], "does not require grad")) << errors[0];  // the other may be told first
}

}  // namespace
}  // namespace ripieno::loop
