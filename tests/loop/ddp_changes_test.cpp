// DistributedDataParallel where models change, where a step has several passes, and where ranks take unequal numbers.
#include <atomic>

#include "tests/loop/own_nets.h"

namespace ripieno::loop {
namespace {

using Net = torch::nn::Sequential;
using torch::nn::Linear;

Linear linear(int in, int out, double seed, torch::ScalarType type = torch::kFloat64) {
  Linear made(in, out);
  made->to(type);
  fill(*made, seed);
  return made;
}

void freeze(Net net) {
  for (torch::Tensor& parameter : net->parameters()) parameter.set_requires_grad(false);
}

/// Where a rank that fails first would end the other in what comes before.
void wait_for_both(std::atomic<int>& there) {
  ++there;
  while (there < 2) std::this_thread::yield();
}

/// A pass of this rank, and one of a lone worker over all ranks' batches.
void expect_same_gradients(Net net, Net alone, int rank, int pass, double within = close) {
  const torch::ScalarType type = net->parameters()[0].scalar_type();
  net->zero_grad();
  alone->zero_grad();
  loss_of(net->forward(batch(rank, pass, type))).backward();
  loss_of(alone->forward(whole_batch(2, pass, type))).backward();
  EXPECT_LT(distance(gradients(*net), gradients(*alone)), within) << "pass " << pass;
}

TEST(DdpChanges, LayersAddedWhereNothingElseIsTrained) {
  on_ranks(2, [](const ProcessGroup& group) {
    Net net = small_net(), alone = small_net();
    DistributedDataParallel ddp(net, group);
    expect_same_gradients(net, alone, ddp.rank(), 0);
    for (Net one : {net, alone}) {
      freeze(one);
      one->zero_grad();
      one->push_back(linear(3, 2, 7));
    }
    ddp.refresh();
    for (int pass = 1; pass < 4; ++pass) expect_same_gradients(net, alone, ddp.rank(), pass);
  });
}

TEST(DdpChanges, LayersThatNoPassKnowsAreTold) {
  std::atomic<int> there{0};
  const auto errors = errors_on_ranks(2, [&](const ProcessGroup& group) {
    Net net = small_net();
    DistributedDataParallel ddp(net, group);
    freeze(net);
    net->push_back(linear(3, 2, 7));
    const torch::Tensor loss = loss_of(net->forward(batch(ddp.rank(), 0)));
    loss.backward();
    wait_for_both(there);
    ddp.mean(loss);
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(error,
              "parameter 5.weight was added after backward pass 0 of model 1 and has a gradient that nobody averaged: "
              "call refresh() after adding layers, on all ranks");
  }
}

TEST(DdpChanges, BuffersOfALayerWithoutParametersAreGivenToAll) {
  on_ranks(2, [](const ProcessGroup& group) {
    Net net = small_net();
    DistributedDataParallel ddp(net, group);
    torch::nn::BatchNorm1d norm(torch::nn::BatchNorm1dOptions(3).affine(false));
    norm->to(torch::kFloat64);
    net->push_back(norm);
    loss_of(net->forward(batch(ddp.rank(), 0))).backward();
    const torch::Tensor held = norm->running_mean.clone();
    EXPECT_LT(distance(ddp.mean(held), held), close);
  });
}

TEST(DdpChanges, CodecsTakeLayersThatAreUnfrozenOneByOne) {
  on_ranks(2, [](const ProcessGroup& group) {
    Net net(linear(4, 6, 1, torch::kFloat32), linear(6, 5, 2, torch::kFloat32), linear(5, 4, 3, torch::kFloat32),
            linear(4, 3, 4, torch::kFloat32));
    Net alone(linear(4, 6, 1, torch::kFloat32), linear(6, 5, 2, torch::kFloat32), linear(5, 4, 3, torch::kFloat32),
              linear(4, 3, 4, torch::kFloat32));
    const auto train_from = [](const Net& one, std::size_t first) {
      freeze(one);
      const std::vector<torch::Tensor> parameters = one->parameters();
      for (std::size_t i = 2 * first; i < parameters.size(); ++i) torch::Tensor(parameters[i]).set_requires_grad(true);
    };
    for (const Net& one : {net, alone}) train_from(one, 3);
    DistributedDataParallel ddp(net, group, {.hook = hooks::fp16()});
    int pass = 0;
    for (const std::size_t first : {3, 2, 1, 0, 2, 0}) {
      for (const Net& one : {net, alone}) train_from(one, first);
      for (int i = 0; i < 2; ++i) expect_same_gradients(net, alone, ddp.rank(), pass++, 1e-2);
    }
  });
}

TEST(DdpChanges, AParameterMayGetAnotherShape) {
  on_ranks(2, [](const ProcessGroup& group) {
    Net net(linear(4, 3, 1), linear(3, 3, 2)), alone(linear(4, 3, 1), linear(3, 3, 2));
    DistributedDataParallel ddp(net, group);
    expect_same_gradients(net, alone, ddp.rank(), 0);
    for (Net one : {net, alone}) {
      one->zero_grad();
      one->parameters()[2].set_data(0.3 * numbers({6, 3}, 5));
      one->parameters()[3].set_data(0.3 * numbers({6}, 6));
    }
    expect_same_gradients(net, alone, ddp.rank(), 1);
  });
}

TEST(DdpChanges, BackwardPassesOfSeveralForwardPassesWithBatchNorm) {
  on_ranks(2, [](const ProcessGroup& group) {
    torch::nn::BatchNorm1d norm(6);
    norm->to(torch::kFloat64);
    Net net(linear(4, 6, 1), norm, linear(6, 3, 2));
    DistributedDataParallel ddp(net, group);
    const torch::Tensor first = net->forward(batch(ddp.rank(), 0)), second = net->forward(batch(ddp.rank(), 1));
    loss_of(first).backward({}, /*retain_graph=*/true);
    first.abs().mean().backward();
    loss_of(second).backward();
    const torch::Tensor all = gradients(*net);
    EXPECT_LT(distance(ddp.mean(all), all), close);
  });
}

using Optimiser = std::unique_ptr<torch::optim::Optimizer>;

TEST(DdpChanges, AJoinThatStepsKeepsTheOptimisersStateTheSame) {
  const auto adam = [](Net net) -> Optimiser {
    return std::make_unique<torch::optim::Adam>(net->parameters(), torch::optim::AdamOptions(0.05));
  };
  const auto momentum = [](Net net) -> Optimiser {
    return std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  };
  const CommunicationHook own = [](const ProcessGroup& group, const GradientBucket& bucket) {
    std::vector<torch::Tensor> tensors{bucket.numbers.div_(group->getSize())};
    return group->allreduce(tensors);
  };
  struct Case {
    std::function<Optimiser(Net)> optimiser;
    bool by_present, as_view;
    CommunicationHook hook;
  };
  for (const Case& one : {Case{adam, false, true, {}}, Case{momentum, true, true, {}}, Case{momentum, true, false, {}},
                          Case{adam, true, true, own}, Case{momentum, true, true, own}}) {
    on_ranks(3, [&](const ProcessGroup& group) {
      Net net = small_net(), alone = small_net();
      DistributedDataParallel ddp(net, group, {.gradient_as_bucket_view = one.as_view, .hook = one.hook});
      const Optimiser mine = one.optimiser(net), other = one.optimiser(alone);
      const int steps[] = {2, 4, 3};
      for (int epoch = 0; epoch < 2; ++epoch) {
        Join join(ddp, one.by_present);
        for (int step = 0; step < steps[ddp.rank()]; ++step) {
          mine->zero_grad();
          loss_of(net->forward(batch(ddp.rank(), 10 * epoch + step))).backward();
          mine->step();
        }
        join.finish([&] { mine->step(); });
        for (int step = 0; step < 4; ++step) {
          other->zero_grad();
          torch::Tensor sum = torch::zeros({}, torch::kFloat64);
          int present = 0;
          for (int rank = 0; rank < 3; ++rank) {
            if (step >= steps[rank]) continue;
            sum = sum + loss_of(alone->forward(batch(rank, 10 * epoch + step)));
            ++present;
          }
          (sum / (one.by_present ? present : 3)).backward();
          other->step();
        }
        EXPECT_LT(distance(weights(*net), weights(*alone)), 1e-9);
      }
    });
  }
}

TEST(DdpChanges, TheMeanWithinAJoinIsRefused) {
  std::atomic<int> there{0};
  const auto errors = errors_on_ranks(2, [&](const ProcessGroup& group) {
    Net net = small_net();
    DistributedDataParallel ddp(net, group);
    Join join(ddp);
    wait_for_both(there);
    ddp.mean(torch::zeros({1}));
  });
  for (const std::string& error : errors)
    EXPECT_TRUE(contains(error, "mean() within a Join, whose ranks end at different times")) << error;
}

TEST(DdpChanges, ASecondJoinInItsGroupIsRefused) {
  std::atomic<int> there{0};
  const auto errors = errors_on_ranks(2, [&](const ProcessGroup& group) {
    Net net = small_net(), other = small_net();
    DistributedDataParallel ddp(net, group), second(other, group);
    {
      Join join(ddp);
      join.finish();
    }
    Join join(second);
    wait_for_both(there);
    Join too_many(ddp);
  });
  for (const std::string& error : errors)
    EXPECT_TRUE(contains(error, "a second Join while another is open in the same group")) << error;
}

TEST(DdpChanges, AStepThatThrowsWithinFinishIsToldToTheOthers) {
  const auto errors = errors_on_ranks(2, [](const ProcessGroup& group) {
    Net net = small_net();
    DistributedDataParallel ddp(net, group);
    Join join(ddp);
    for (int step = 0; step < 50 && ddp.rank() == 1; ++step) loss_of(net->forward(batch(1, step))).backward();
    join.finish([] { throw std::runtime_error("no step"); });
  });
  EXPECT_EQ(errors[0], "no step");
  EXPECT_TRUE(contains(errors[1], "left its Join without finish()")) << errors[1];
}

TEST(DdpChanges, AHookInTwoModelsIsRefused) {
  const auto errors = errors_on_ranks(2, [&](const ProcessGroup& group) {
    Net net = small_net(), other = small_net();
    const CommunicationHook hook = hooks::topk();
    DistributedDataParallel ddp(net, group, {.hook = hook}), second(other, group, {.hook = hook});
    loss_of(net->forward(batch(ddp.rank(), 0))).backward();
    loss_of(other->forward(batch(ddp.rank(), 0))).backward();
  });
  for (const std::string& error : errors)
    EXPECT_TRUE(contains(error, "a hook with codec topk in two models") || contains(error, "exception")) << error;
  EXPECT_TRUE(contains(errors[0] + errors[1], "a hook with codec topk in two models")) << errors[0];
}

}  // namespace
}  // namespace ripieno::loop
