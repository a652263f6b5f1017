// DistributedDataParallel with nets of all kinds: see ddp_test.cpp.
#include <unistd.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "ripieno/train/torch_internals.h"
#include "tests/loop/own_nets.h"
#include "tests/train/other_device.h"

namespace ripieno::loop {
namespace {

using Net = torch::nn::Sequential;
using torch::nn::Linear;

/// A layer as all ranks make it, in fp64.
Linear layer(int in, int out, double seed) {
  Linear made(in, out);
  made->to(torch::kFloat64);
  fill(*made, seed);
  return made;
}

/// Two layers, of which a pass takes one or both.
struct ForkedImpl : torch::nn::Module {
  ForkedImpl() : left(register_module("left", layer(4, 3, 1))), right(register_module("right", layer(4, 3, 2))) {}
  torch::Tensor forward(const torch::Tensor& x, bool takes_left, bool takes_right) {
    torch::Tensor sum = torch::zeros({x.size(0), 3}, torch::kFloat64);
    if (takes_left) sum = sum + left(x);
    if (takes_right) sum = sum + right(x);
    return sum;
  }
  Linear left, right;
};
TORCH_MODULE(Forked);

TEST(DdpNets, BatchNormHasTheStatisticsOfRank0) {
  on_ranks(2, [](const ProcessGroup& group) {
    for (const bool broadcast : {true, false}) {
      Net net(Linear(4, 5), torch::nn::BatchNorm1d(5), Linear(5, 2)), alone(Linear(4, 5), torch::nn::BatchNorm1d(5));
      fill(*net, 1);
      fill(*alone, 1);
      net->named_buffers()["1.running_mean"].fill_(group->getRank());
      DistributedDataParallel ddp(net, group, {.broadcast_buffers = broadcast});
      for (int step = 0; step < 2; ++step) {
        net->zero_grad();
        loss_of(net->forward(batch(ddp.rank(), step, torch::kFloat32))).backward();
        alone->forward(batch(broadcast ? 0 : ddp.rank(), step, torch::kFloat32));
      }
      for (const auto& item : alone->named_buffers())
        EXPECT_TRUE(torch::allclose(net->named_buffers()[item.key()], item.value())) << item.key();
      EXPECT_EQ(net->named_buffers()["1.num_batches_tracked"].item<int>(), 2);
    }
  });
}

TEST(DdpNets, ParametersThatNoRankUsesKeepTheirGradient) {
  on_ranks(2, [](const ProcessGroup& group) {
    Forked net, alone;
    DistributedDataParallel ddp(net, group);
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      loss_of(net->forward(batch(ddp.rank(), step), true, false)).backward();
      EXPECT_FALSE(net->right->weight.grad().defined());
      alone->zero_grad();
      loss_of(alone->forward(whole_batch(2, step), true, false)).backward();
      EXPECT_LT(distance(gradients(*net), gradients(*alone)), close);
    }
    const torch::Tensor before = net->left->weight.grad().clone();
    loss_of(net->forward(batch(ddp.rank(), 3), false, true)).backward();  // the other half
    EXPECT_TRUE(torch::equal(net->left->weight.grad(), before));
    EXPECT_TRUE(net->right->weight.grad().defined());
  });
}

TEST(DdpNets, ParametersThatOneRankUses) {
  on_ranks(3, [](const ProcessGroup& group) {
    Forked net, alone;
    DistributedDataParallel ddp(net, group);
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      alone->zero_grad();
      const auto takes_left = [&](int rank) { return rank == step; };
      loss_of(net->forward(batch(ddp.rank(), step), takes_left(ddp.rank()), true)).backward();
      torch::Tensor sum = torch::zeros({}, torch::kFloat64);
      for (int rank = 0; rank < 3; ++rank)
        sum = sum + loss_of(alone->forward(batch(rank, step), takes_left(rank), true)) / 3;
      sum.backward();
      EXPECT_LT(distance(gradients(*net), gradients(*alone)), close);
    }
  });
}

TEST(DdpNets, UsedWithinNoSyncCounts) {
  on_ranks(2, [](const ProcessGroup& group) {
    Forked net, alone;
    DistributedDataParallel ddp(net, group);
    {
      const NoSync accumulating(ddp);
      loss_of(net->forward(batch(ddp.rank(), 0), true, false)).backward();
    }
    loss_of(net->forward(batch(ddp.rank(), 1), false, true)).backward();
    loss_of(alone->forward(whole_batch(2, 0), true, false)).backward();
    loss_of(alone->forward(whole_batch(2, 1), false, true)).backward();
    EXPECT_LT(distance(gradients(*net), gradients(*alone)), close);
  });
}

/// Gradients of a net after one pass on each rank, beside one worker's on all batches.
template <class Make, class Loss>
void expect_same_gradients(const Make& make, const Loss& loss, double tolerance = close, int passes = 2) {
  on_ranks(2, [&](const ProcessGroup& group) {
    auto net = make(), alone = make();
    DistributedDataParallel ddp(net, group);
    for (int pass = 0; pass < passes; ++pass) {
      net->zero_grad();
      alone->zero_grad();
      loss(net, batch(ddp.rank(), pass)).backward();
      loss(alone, whole_batch(2, pass)).backward();
      EXPECT_LT(distance(gradients(*net), gradients(*alone)), tolerance);
    }
  });
}

torch::Tensor plain_loss(Net& net, const torch::Tensor& samples) { return loss_of(net->forward(samples)); }

TEST(DdpNets, TiedWeights) {
  expect_same_gradients(
      [] {
        const Linear shared = layer(4, 4, 1);
        return Net(shared, torch::nn::Tanh(), shared, layer(4, 2, 3));
      },
      plain_loss);
}

TEST(DdpNets, FrozenLayers) {
  expect_same_gradients(
      [] {
        Net net = small_net();
        net->parameters()[0].set_requires_grad(false);
        return net;
      },
      plain_loss);
}

TEST(DdpNets, LayersFrozenAndUnfrozenLater) {
  on_ranks(2, [](const ProcessGroup& group) {
    Net net = small_net(), alone = small_net();
    for (Net& one : {std::ref(net), std::ref(alone)}) {
      for (torch::Tensor& parameter : one->parameters()) parameter.set_requires_grad(false);
      one->parameters()[5].set_requires_grad(true);
    }
    DistributedDataParallel ddp(net, group);
    for (int pass = 0; pass < 6; ++pass) {
      if (pass == 2 || pass == 4) {  // first the others alone, then all
        for (Net& one : {std::ref(net), std::ref(alone)}) {
          for (torch::Tensor& parameter : one->parameters()) parameter.set_requires_grad(true);
          one->parameters()[5].set_requires_grad(pass == 4);
        }
      }
      net->zero_grad();
      alone->zero_grad();
      loss_of(net->forward(batch(ddp.rank(), pass))).backward();
      loss_of(alone->forward(whole_batch(2, pass))).backward();
      EXPECT_LT(distance(gradients(*net), gradients(*alone)), close) << pass;
    }
  });
}

TEST(DdpNets, LayersAddedLater) {
  on_ranks(2, [](const ProcessGroup& group) {
    Net net = small_net(), alone = small_net();
    DistributedDataParallel ddp(net, group);
    for (int pass = 0; pass < 4; ++pass) {
      if (pass == 2) {
        net->push_back(layer(3, 2, 7));
        alone->push_back(layer(3, 2, 7));
      }
      net->zero_grad();
      alone->zero_grad();
      loss_of(net->forward(batch(ddp.rank(), pass))).backward();
      loss_of(alone->forward(whole_batch(2, pass))).backward();
      EXPECT_LT(distance(gradients(*net), gradients(*alone)), close) << pass;
    }
  });
}

TEST(DdpNets, GradientPenalty) {  // a derivative of a derivative
  expect_same_gradients([] { return small_net(); },
                        [](Net& net, torch::Tensor samples) {
                          samples.set_requires_grad(true);
                          const auto slope =
                              torch::autograd::grad({net->forward(samples).square().sum()}, {samples}, {},
                                                    /*retain_graph=*/true, /*create_graph=*/true);
                          return slope[0].square().mean() + loss_of(net->forward(samples));
                        });
}

/// Computes a layer anew in the backward pass, as activation checkpointing does.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& input, Linear layer) {
    context->save_for_backward({input});
    context->saved_data["layer"] = reinterpret_cast<std::int64_t>(layer.get());
    const torch::NoGradGuard no_grad;
    return torch::tanh(layer(input));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    auto* layer = reinterpret_cast<torch::nn::LinearImpl*>(context->saved_data["layer"].toInt());
    const torch::AutoGradMode on(true);
    const torch::Tensor input = context->get_saved_variables()[0].detach().set_requires_grad(true);
    torch::tanh(layer->forward(input)).backward(gradients[0]);
    return {input.grad(), {}};
  }
};

TEST(DdpNets, ActivationCheckpointing) {
  struct Deep : torch::nn::Module {
    Linear a = register_module("a", layer(4, 4, 1)), b = register_module("b", layer(4, 4, 2)),
           c = register_module("c", layer(4, 2, 3));
  };
  expect_same_gradients([] { return std::make_shared<Deep>(); },
                        [](const std::shared_ptr<Deep>& net, torch::Tensor samples) {
                          samples.set_requires_grad(true);
                          const torch::Tensor hidden = Recomputed::apply(samples, net->a);
                          return loss_of(net->c(Recomputed::apply(hidden, net->b)));
                        });
}

TEST(DdpNets, SeveralTypes) {
  expect_same_gradients(
      [] {
        Net net(layer(4, 6, 1), torch::nn::Functional([](const torch::Tensor& x) { return x.to(torch::kFloat32); }));
        Linear next(6, 2);
        fill(*next, 2);
        net->push_back(next);
        return net;
      },
      plain_loss, 1e-6);
}

TEST(DdpNets, Bf16AndConvertedLater) {
  on_ranks(2, [](const ProcessGroup& group) {
    Net net = small_net(), alone = small_net();
    DistributedDataParallel ddp(net, group);
    loss_of(net->forward(batch(ddp.rank(), 0))).backward();
    for (Net& one : {std::ref(net), std::ref(alone)}) {
      one->zero_grad();
      one->to(torch::kBFloat16);
    }
    for (int pass = 0; pass < 2; ++pass) {
      net->zero_grad();
      alone->zero_grad();
      loss_of(net->forward(batch(ddp.rank(), pass, torch::kBFloat16))).backward();
      loss_of(alone->forward(whole_batch(2, pass, torch::kBFloat16))).backward();
      EXPECT_EQ(net->parameters()[0].grad().scalar_type(), torch::kBFloat16);
      EXPECT_LT(distance(gradients(*net), gradients(*alone)), 5e-3);
    }
  });
}

TEST(DdpNets, Autocast) {
  expect_same_gradients(
      [] {
        Net net = small_net();
        net->to(torch::kFloat32);
        return net;
      },
      [](Net& net, const torch::Tensor& samples) {
        const train::AutocastSwitch autocast(torch::kCPU, torch::kBFloat16);
        return loss_of(net->forward(samples.to(torch::kFloat32)).to(torch::kFloat32));
      },
      5e-3);
}

TEST(DdpNets, ChannelsLast) {
  on_ranks(2, [](const ProcessGroup& group) {
    torch::nn::Conv2d net(torch::nn::Conv2dOptions(3, 4, 3)), alone(torch::nn::Conv2dOptions(3, 4, 3));
    for (torch::nn::Conv2d& one : {std::ref(net), std::ref(alone)}) {
      fill(*one, 1);
      one->weight.set_data(one->weight.detach().contiguous(torch::MemoryFormat::ChannelsLast));
    }
    DistributedDataParallel ddp(net, group);
    const auto images = [](int rank) {
      return numbers({2, 3, 6, 6}, rank, torch::kFloat32).contiguous(torch::MemoryFormat::ChannelsLast);
    };
    loss_of(net(images(ddp.rank()))).backward();
    loss_of(alone(torch::cat({images(0), images(1)}))).backward();
    EXPECT_TRUE(net->weight.grad().is_contiguous(torch::MemoryFormat::ChannelsLast));
    EXPECT_LT(distance(gradients(*net), gradients(*alone)), 1e-6);
  });
}

/// Whether the gradients on another device are those of one worker on the CPU.
bool has_gradients_of_a_device(const ProcessGroup& group, bool codec) {
  Net net(Linear(4, 6), torch::nn::BatchNorm1d(6), Linear(6, 2)),
      alone(Linear(4, 6), torch::nn::BatchNorm1d(6), Linear(6, 2));
  fill(*net, 1 + group->getRank());
  fill(*alone, 1);
  const torch::Device device = testing::other_device();
  net->to(device);
  const CommunicationHook hook = codec ? hooks::topk(1) : CommunicationHook();
  DistributedDataParallel ddp(net, group, {.bucket_cap_mb = 1e-4, .hook = hook});
  const auto loss_of_rank = [&](int rank) { return loss_of(alone->forward(batch(rank, 0, torch::kFloat32))) / 2; };
  (loss_of_rank(0) + loss_of_rank(1)).backward();
  loss_of(net->forward(batch(ddp.rank(), 0, torch::kFloat32).to(device))).backward();
  std::vector<torch::Tensor> found;
  for (const torch::Tensor& parameter : net->parameters()) found.push_back(parameter.grad().cpu());
  return distance(flat(found), gradients(*alone)) < 1e-5;
}

/// A rank of the next test, which runs it.
TEST(DdpNets, DISABLED_RankOnADevice) {
  const char *path = std::getenv("RIPIENO_TEST_STORE"), *rank = std::getenv("RIPIENO_TEST_RANK");
  ASSERT_TRUE(path && rank);
  for (const bool codec : {false, true}) {
    const auto store = c10::make_intrusive<::c10d::FileStore>(path + std::to_string(codec), 2);
    const ProcessGroup group = init_process_group(store, std::atoi(rank), 2, std::chrono::seconds(60));
    EXPECT_TRUE(has_gradients_of_a_device(group, codec));
  }
}

TEST(DdpNets, OnADeviceWhoseMemoryIsNotTheHosts) {
  // Two processes: backward passes on a device share a thread of their process, where a rank waits for the other.
  const std::string store = ::testing::TempDir() + "ripieno-device-" + std::to_string(::getpid()) + "-";
  std::vector<std::thread> ranks;
  for (const char* rank : {"0", "1"}) {
    ranks.emplace_back([rank, &store] {
      const std::string command = "RIPIENO_TEST_STORE=" + store + " RIPIENO_TEST_RANK=" + rank +
                                  " exec /proc/$PPID/exe --gtest_also_run_disabled_tests --gtest_brief=1"
                                  " --gtest_filter=DdpNets.DISABLED_RankOnADevice";
      EXPECT_EQ(std::system(command.c_str()), 0);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const char* codec : {"0", "1"}) std::remove((store + codec).c_str());
}

TEST(DdpNets, CodecsLearn) {
  for (const auto& make :
       {+[] { return hooks::fp16(); }, +[] { return hooks::bf16(); }, +[] { return hooks::int8(8); },
        +[] { return hooks::qsgd(8); }, +[] { return hooks::topk(1); }, +[] { return hooks::topk_sampled(1); }}) {
    on_ranks(2, [&](const ProcessGroup& group) {
      Net net = small_net(), alone = small_net();
      DistributedDataParallel ddp(net, group, {.hook = make()});
      loss_of(net->forward(batch(ddp.rank(), 0))).backward();
      loss_of(alone->forward(whole_batch(2, 0))).backward();
      EXPECT_LT(distance(gradients(*net), gradients(*alone)), 0.01 * gradients(*alone).abs().max().item<double>());
    });
  }
  for (const auto& make : {+[] { return hooks::powersgd(1); }, +[] { return hooks::sign(8); }}) {
    on_ranks(2, [&](const ProcessGroup& group) {
      Net net = small_net();
      DistributedDataParallel ddp(net, group, {.hook = make()});
      torch::optim::SGD optimiser(net->parameters(), 0.1);
      double first = 0, last = 0;
      for (int step = 0; step < 30; ++step) {
        optimiser.zero_grad();
        const torch::Tensor loss = loss_of(net->forward(batch(ddp.rank(), 0)));
        loss.backward();
        optimiser.step();
        (step == 0 ? first : last) = ddp.mean(loss).item<double>();
      }
      EXPECT_LT(last, 0.5 * first);
    });
  }
}

TEST(DdpNets, OwnHook) {
  on_ranks(2, [](const ProcessGroup& group) {
    Net net = small_net(), alone = small_net();
    const CommunicationHook doubled = [](const ProcessGroup& all, GradientBucket bucket) {
      std::vector<torch::Tensor> tensors{bucket.numbers};  // the sum, and not the mean
      return all->allreduce(tensors);
    };
    DistributedDataParallel ddp(net, group, {.hook = doubled});
    loss_of(net->forward(batch(ddp.rank(), 0))).backward();
    loss_of(alone->forward(whole_batch(2, 0))).backward();
    EXPECT_LT(distance(gradients(*net), 2 * gradients(*alone)), close);
  });
}

}  // namespace
}  // namespace ripieno::loop
