// What users of DistributedDataParallel need: each a test, in the order of the table in docs/from-pytorch.md.
#include "tests/loop/own_nets.h"

namespace ripieno::loop {
namespace {

using Net = torch::nn::Sequential;

/// Each rank's weights after steps on its own batches, and one worker's after steps on all of them.
template <class Step>
void expect_same_as_one_worker(int size, const Step& step, const DistributedDataParallelOptions& options = {}) {
  on_ranks(size, [&](const ProcessGroup& group) {
    Net net = small_net(group->getRank()), alone = small_net(0);
    DistributedDataParallel ddp(net, group, options);
    torch::optim::SGD optimiser(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)),
        other(alone->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int number = 0; number < 4; ++number) {
      step(net, optimiser, batch(group->getRank(), number), number);
      step(alone, other, whole_batch(size, number), number);
    }
    EXPECT_LT(distance(weights(*net), weights(*alone)), close);
  });
}

void plain_step(Net net, torch::optim::Optimizer& optimiser, const torch::Tensor& samples, int) {
  optimiser.zero_grad();
  loss_of(net->forward(samples)).backward();
  optimiser.step();
}

TEST(Ddp, StepsAsOneWorkerOnAllBatches) {
  for (const int size : {1, 2, 3}) expect_same_as_one_worker(size, plain_step);
}

TEST(Ddp, SmallBuckets) { expect_same_as_one_worker(3, plain_step, {.bucket_cap_mb = 1e-4}); }

TEST(Ddp, GradientsAsCopies) { expect_same_as_one_worker(2, plain_step, {.gradient_as_bucket_view = false}); }

TEST(Ddp, ClippingScheduleAndGroups) {
  expect_same_as_one_worker(2, [](Net net, torch::optim::SGD& optimiser, const torch::Tensor& samples, int number) {
    if (optimiser.param_groups().size() == 1) {
      auto all = net->parameters();
      optimiser.param_groups()[0].params() = {all.begin(), all.begin() + 2};
      optimiser.add_param_group(torch::optim::OptimizerParamGroup({all.begin() + 2, all.end()},
                                                                  std::make_unique<torch::optim::SGDOptions>(0.02)));
    }
    optimiser.zero_grad();
    loss_of(net->forward(samples)).backward();
    torch::nn::utils::clip_grad_norm_(net->parameters(), 0.05);
    static_cast<torch::optim::SGDOptions&>(optimiser.param_groups()[0].options()).lr(0.1 / (1 + number));
    optimiser.step();
  });
}

TEST(Ddp, ZeroesInsteadOfNone) {
  expect_same_as_one_worker(2, [](Net net, torch::optim::SGD& optimiser, const torch::Tensor& samples, int) {
    loss_of(net->forward(samples)).backward();
    optimiser.step();
    optimiser.zero_grad(false);
  });
}

TEST(Ddp, GradientsThatNobodyZeroesAddUp) {
  expect_same_as_one_worker(3, [](Net net, torch::optim::SGD& optimiser, const torch::Tensor& samples, int) {
    loss_of(net->forward(samples)).backward();
    optimiser.step();
  });
}

TEST(Ddp, SeveralBackwardPassesAStep) {
  expect_same_as_one_worker(2, [](Net net, torch::optim::SGD& optimiser, const torch::Tensor& samples, int) {
    optimiser.zero_grad();
    const torch::Tensor output = net->forward(samples);
    loss_of(output).backward({}, /*retain_graph=*/true);
    output.mean().backward();
    optimiser.step();
  });
}

TEST(Ddp, OptimisersOfAllKindsMadeBeforeOrAfter) {
  on_ranks(2, [](const ProcessGroup& group) {
    Net net = small_net(1 + group->getRank()), alone = small_net(1);
    torch::optim::AdamW before(net->parameters(), torch::optim::AdamWOptions(0.01));
    DistributedDataParallel ddp(net, group);
    torch::optim::RMSprop after(net->parameters(), torch::optim::RMSpropOptions(0.01));
    torch::optim::AdamW one(alone->parameters(), torch::optim::AdamWOptions(0.01));
    torch::optim::RMSprop two(alone->parameters(), torch::optim::RMSpropOptions(0.01));
    for (int step = 0; step < 3; ++step) {
      plain_step(net, before, batch(ddp.rank(), step), step);
      plain_step(net, after, batch(ddp.rank(), step), step);
      plain_step(alone, one, whole_batch(2, step), step);
      plain_step(alone, two, whole_batch(2, step), step);
    }
    EXPECT_LT(distance(weights(*net), weights(*alone)), 1e-9);
  });
}

TEST(Ddp, NoSyncAccumulates) {
  on_ranks(2, [](const ProcessGroup& group) {
    Net net = small_net(), alone = small_net();
    DistributedDataParallel ddp(net, group);
    torch::optim::SGD optimiser(net->parameters(), 0.1), other(alone->parameters(), 0.1);
    for (int step = 0; step < 3; ++step) {
      optimiser.zero_grad();
      other.zero_grad();
      {
        const NoSync accumulating(ddp);
        const std::uint64_t before = group->ledger().total().payload_sent;
        loss_of(net->forward(batch(ddp.rank(), 2 * step))).backward();
        EXPECT_EQ(group->ledger().total().payload_sent, before);
      }
      loss_of(net->forward(batch(ddp.rank(), 2 * step + 1))).backward();
      loss_of(alone->forward(whole_batch(2, 2 * step))).backward();
      loss_of(alone->forward(whole_batch(2, 2 * step + 1))).backward();
      EXPECT_LT(distance(gradients(*net), gradients(*alone)), close);
      optimiser.step();
      other.step();
    }
  });
}

TEST(Ddp, GradientsAreInBucketsOrKept) {
  on_ranks(2, [](const ProcessGroup& group) {
    for (const bool view : {true, false}) {
      Net net = small_net();
      DistributedDataParallel ddp(net, group, {.gradient_as_bucket_view = view});
      loss_of(net->forward(batch(ddp.rank(), 0))).backward();
      loss_of(net->forward(batch(ddp.rank(), 0))).backward();  // in the final buckets
      const torch::Tensor kept = net->parameters()[0].grad();
      const torch::Tensor copy = kept.clone();
      net->zero_grad();
      loss_of(net->forward(batch(ddp.rank(), 1))).backward();
      EXPECT_EQ(torch::equal(kept, copy), !view);
    }
  });
}

TEST(Ddp, MeanOfANumber) {
  on_ranks(3, [](const ProcessGroup& group) {
    DistributedDataParallel ddp(small_net(), group);
    EXPECT_DOUBLE_EQ(ddp.mean(torch::tensor(1.0 + ddp.rank(), torch::kFloat64)).item<double>(), 2);
  });
}

TEST(Ddp, LbfgsWithTheMeanLoss) {
  on_ranks(2, [](const ProcessGroup& group) {
    Net net = small_net(), alone = small_net();
    DistributedDataParallel ddp(net, group);
    const auto options = torch::optim::LBFGSOptions(0.5).line_search_fn("strong_wolfe").max_iter(4);
    torch::optim::LBFGS optimiser(net->parameters(), options), other(alone->parameters(), options);
    for (int step = 0; step < 2; ++step) {
      optimiser.step([&] {
        optimiser.zero_grad();
        const torch::Tensor loss = loss_of(net->forward(batch(ddp.rank(), step)));
        loss.backward();
        return ddp.mean(loss);
      });
      other.step([&] {
        other.zero_grad();
        const torch::Tensor loss = loss_of(alone->forward(whole_batch(2, step)));
        loss.backward();
        return loss;
      });
    }
    EXPECT_LT(distance(weights(*net), weights(*alone)), 1e-8);
  });
}

TEST(Ddp, EvaluationOnOneRank) {
  on_ranks(2, [](const ProcessGroup& group) {
    Net net = small_net();
    DistributedDataParallel ddp(net, group);
    torch::optim::SGD optimiser(net->parameters(), 0.1);
    for (int step = 0; step < 2; ++step) {
      plain_step(net, optimiser, batch(ddp.rank(), step), step);
      if (ddp.rank() == 0) {
        const torch::NoGradGuard no_grad;
        EXPECT_TRUE(std::isfinite(loss_of(net->forward(batch(0, 9))).item<double>()));
      }
    }
  });
}

TEST(Ddp, SavesAndResumes) {
  on_ranks(2, [](const ProcessGroup& group) {
    Net net = small_net();
    DistributedDataParallel ddp(net, group);
    torch::optim::Adam optimiser(net->parameters(), torch::optim::AdamOptions(0.01));
    for (int step = 0; step < 2; ++step) plain_step(net, optimiser, batch(ddp.rank(), step), step);
    std::stringstream of_net, of_optimiser;
    torch::save(net, of_net);
    torch::save(optimiser, of_optimiser);
    plain_step(net, optimiser, batch(ddp.rank(), 2), 2);

    Net resumed = small_net(5);
    torch::optim::Adam its(resumed->parameters(), torch::optim::AdamOptions(0.01));
    torch::load(resumed, of_net);
    torch::load(its, of_optimiser);
    DistributedDataParallel again(resumed, group);
    plain_step(resumed, its, batch(ddp.rank(), 2), 2);
    EXPECT_LT(distance(weights(*net), weights(*resumed)), close);
  });
}

TEST(Ddp, TwoModelsAndTwoGroups) {
  const auto second = c10::make_intrusive<::c10d::HashStore>();
  on_ranks(2, [&](const ProcessGroup& group) {
    const ProcessGroup others = init_process_group(second, group->getRank(), 2);
    Net a = small_net(1), b = small_net(2), c = small_net(3);
    DistributedDataParallel first(a, group), next(b, group), apart(c, others);
    const auto own = batch(first.rank(), 0);
    (loss_of(a->forward(own)) + loss_of(b->forward(own)) + loss_of(c->forward(own))).backward();
    for (auto [net, seed] : {std::pair(a, 1), std::pair(b, 2), std::pair(c, 3)}) {
      Net alone = small_net(seed);
      loss_of(alone->forward(whole_batch(2, 0))).backward();
      EXPECT_LT(distance(gradients(*net), gradients(*alone)), close);
    }
  });
}

TEST(Ddp, JoinOfUnevenInputs) {
  for (const bool by_present : {false, true}) {
    on_ranks(3, [&](const ProcessGroup& group) {
      Net net = small_net(), alone = small_net();
      DistributedDataParallel ddp(net, group);
      torch::optim::SGD optimiser(net->parameters(), 0.1), other(alone->parameters(), 0.1);
      const int steps[] = {2, 4, 3};
      Join join(ddp, by_present);
      for (int step = 0; step < steps[ddp.rank()]; ++step) plain_step(net, optimiser, batch(ddp.rank(), step), step);
      join.finish();
      for (int step = 0; step < 4; ++step) {
        other.zero_grad();
        torch::Tensor sum = torch::zeros({}, torch::kFloat64);
        int present = 0;
        for (int rank = 0; rank < 3; ++rank) {
          if (step >= steps[rank]) continue;
          sum = sum + loss_of(alone->forward(batch(rank, step)));
          ++present;
        }
        (sum / (by_present ? present : 3)).backward();
        other.step();
      }
      EXPECT_LT(distance(weights(*net), weights(*alone)), close);
      plain_step(net, optimiser, batch(ddp.rank(), 7), 0);  // goes on evenly
    });
  }
}

TEST(Ddp, BuffersOfLayersAddedOrConvertedLater) {
  on_ranks(2, [](const ProcessGroup& group) {
    Net net = small_net();
    DistributedDataParallel ddp(net, group);
    loss_of(net->forward(batch(ddp.rank(), 0))).backward();
    torch::nn::BatchNorm1d norm(3);
    norm->to(torch::kFloat64);
    norm->running_mean.fill_(1 + ddp.rank());
    net->push_back(norm);
    for (const torch::ScalarType type : {torch::kFloat64, torch::kFloat32}) {
      net->to(type);
      net->zero_grad();
      loss_of(net->forward(batch(ddp.rank(), 1, type))).backward();
      const torch::Tensor held = norm->running_mean.to(torch::kFloat64);
      EXPECT_LT(distance(ddp.mean(held), held), 1e-7) << type;
    }
  });
}

TEST(Ddp, OneProcessWithoutALauncher) {
  const ProcessGroup group = init_process_group({.timeout = std::chrono::minutes(5)});
  Net net = small_net();
  DistributedDataParallel ddp(net, group);
  loss_of(net->forward(batch(0, 0))).backward();
  EXPECT_EQ(ddp.world_size(), 1);
  EXPECT_TRUE(net->parameters()[0].grad().defined());
}

TEST(Ddp, ExchangesTheParametersOnceAndLittleElse) {
  on_ranks(2, [](const ProcessGroup& group) {
    torch::nn::Linear net(500, 500);
    fill(*net, 1);
    DistributedDataParallel ddp(net, group);
    const auto pass = [&] {
      const std::uint64_t before = group->ledger().total().payload_sent;
      loss_of(net->forward(numbers({2, 500}, ddp.rank(), torch::kFloat32))).backward();
      return group->ledger().total().payload_sent - before;
    };
    pass();
    const std::uint64_t sent = pass(), bytes = std::uint64_t{500 * 501} * 4;
    EXPECT_GE(sent, bytes);  // two ranks: half of the numbers out, half of the sums out
    EXPECT_LT(sent, bytes + 1000);
  });
}

}  // namespace
}  // namespace ripieno::loop
