// Strategies in a loop of one's own take the same steps as in training, with the user's optimiser and learning rate.
#include "ripieno/loop/agree.h"

#include <atomic>
#include <thread>

#include "ripieno/strategy/registry.h"
#include "tests/loop/line.h"

namespace ripieno::loop {
namespace {

struct NamedTraining {
  const char* name;
  SameTraining same;
};

const std::vector<NamedTraining>& trainings() {
  static const std::vector<NamedTraining> all{
      {"single", {.strategy = "single", .workers = 1}},
      {"gather_scatter", {.strategy = "gather-scatter"}},
      {"reduce_broadcast", {.strategy = "reduce-broadcast"}},
      {"ring", {.strategy = "ring"}},
      {"ring_uneven", {.strategy = "ring", .options = {.uneven_batches = true}, .samples = 103, .batch = 16}},
      {"halving_doubling", {.strategy = "halving-doubling"}},
      {"direct", {.strategy = "direct"}},
      {"hierarchical", {.strategy = "hierarchical"}},
      {"double_binary_tree", {.strategy = "double-binary-tree"}},
      {"leader_ring", {.strategy = "leader-ring"}},
      {"accumulate", {.strategy = "accumulate", .options = {.passes = 3}}},
      {"accumulate_uneven",
       {.strategy = "accumulate", .options = {.passes = 3, .uneven_batches = true}, .samples = 103, .batch = 16}},
      {"ps_sync", {.strategy = "ps-sync"}},
      {"ps_sync_two_servers", {.strategy = "ps-sync", .options = {.servers = 2}}},
      {"ps_sync_adamw", {.strategy = "ps-sync", .optimiser = {.name = "adamw", .weight_decay = 0.1}}},
      {"ps_sync_uneven", {.strategy = "ps-sync", .options = {.uneven_batches = true}, .samples = 103, .batch = 16}},
      {"ps_async_alone", {.strategy = "ps-async", .workers = 1}},
      // With several workers at their own pace the order of updates is that of arrival (agree_conformance_test.cpp).
      {"ps_ssp_alone", {.strategy = "ps-ssp", .workers = 1}},
      {"fedavg", {.strategy = "fedavg", .samples = 103}},
      {"fedavg_two_epochs", {.strategy = "fedavg", .options = {.local_epochs = 2, .deltas = true}, .epochs = 4}},
      {"fedavgm", {.strategy = "fedavgm", .options = {.outer = {.momentum = 0.5}}}},
      {"fedadam", {.strategy = "fedadam", .options = {.outer = {.learning_rate = 0.3}}}},
      {"local_sgd", {.strategy = "local-sgd", .options = {.steps = 4}}},
      {"local_sgd_delay", {.strategy = "local-sgd", .options = {.steps = 5, .delay = 2}}},
      {"local_sgd_uneven",
       {.strategy = "local-sgd", .options = {.steps = 4, .uneven_batches = true}, .samples = 103, .batch = 16}},
      {"diloco", {.strategy = "diloco", .options = {.steps = 4}}},
      {"diloco_adam", {.strategy = "diloco", .options = {.steps = 4}, .optimiser = {.name = "adam"}}},
      {"diloco_route", {.strategy = "diloco", .options = {.steps = 4, .route = "direct"}}},
      {"ring_passes", {.strategy = "ring-passes", .options = {.passes = 2}}},
      {"ring_passes_full", {.strategy = "ring-passes", .options = {.passes = 3}}},
      {"ring_groups", {.strategy = "ring-groups"}},
      {"gossip_pairs", {.strategy = "gossip-pairs", .options = {.seed = 5}}},
      {"gossip_exponential", {.strategy = "gossip-exponential", .workers = 4}},
      {"ring_int8", {.strategy = "ring", .options = {.codec = {.name = "int8", .block = 8}}}},
      {"ring_qsgd", {.strategy = "ring", .options = {.codec = {.name = "qsgd", .block = 8}, .seed = 7}}},
      {"ring_topk", {.strategy = "ring", .options = {.codec = {.name = "topk", .fraction = 0.3}}}},
      {"ring_powersgd", {.strategy = "ring", .options = {.codec = {.name = "powersgd"}}}},
      {"diloco_sign", {.strategy = "diloco", .options = {.steps = 4, .codec = {.name = "sign", .block = 8}}}},
      {"ps_sync_topk", {.strategy = "ps-sync", .options = {.codec = {.name = "topk", .fraction = 0.3}}}},
      {"fedavg_int8", {.strategy = "fedavg", .options = {.deltas = true, .codec = {.name = "int8", .block = 8}}}},
      {"gossip_fp16", {.strategy = "gossip-pairs", .options = {.codec = {.name = "fp16"}}}},
  };
  return all;
}

class Agree : public ::testing::TestWithParam<NamedTraining> {};

TEST_P(Agree, TakesTheStepsOfTraining) {
  const SameTraining& same = GetParam().same;
  const Path trained = path_of_trial(same), own = path_of_loop(same);
  EXPECT_LE(apart(trained, own), 1e-10);
  // The comparison can fail: another learning rate in the last epoch leads elsewhere.
  SameTraining other = same;
  other.rates[2] = 0.2;
  EXPECT_GT(apart(trained, path_of_trial(other)), 1e-4);
  // An exact one takes the steps of one worker with the whole batch.
  if (!same.info().exact || same.options.codec.name != "auto") return;
  const auto fold = static_cast<std::uint32_t>(same.options.passes);
  const Numbers one = testing::train_alone(same.plan(), same.learner(), same.batch * fold);
  for (const Numbers& end : own.end) {
    EXPECT_LE(testing::distance(end, one), 1e-10 * testing::distance(one, Numbers(one.size())));
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Agree, ::testing::ValuesIn(trainings()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(AgreeStrategies, AllBuiltInOnesAreTriedOrRefused) {
  for (const strategy::StrategyInfo& info : strategy::strategies()) {
    const bool tried = std::any_of(trainings().begin(), trainings().end(),
                                   [&](const NamedTraining& one) { return one.same.strategy == info.name; });
    EXPECT_NE(tried, info.name == "ddp") << info.name;
  }
}

/// A net with batch norm and a frozen layer, in fp32.
struct NormedNet : torch::nn::Module {
  NormedNet() {
    first = register_module("first", torch::nn::Linear(6, 12));
    norm = register_module("norm", torch::nn::BatchNorm1d(12));
    frozen = register_module("frozen", torch::nn::Linear(12, 12));
    last = register_module("last", torch::nn::Linear(12, 3));
    for (auto& parameter : frozen->parameters()) parameter.set_requires_grad(false);
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(torch::relu(frozen(torch::relu(norm(first(x)))))); }
  torch::nn::Linear first = nullptr, frozen = nullptr, last = nullptr;
  torch::nn::BatchNorm1d norm = nullptr;
};

/// LibTorch's draws are of the whole process, whose ranks are threads here.
std::shared_ptr<NormedNet> normed_net_of(std::uint64_t seed) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(seed);
  return std::make_shared<NormedNet>();
}

struct ClassData {
  explicit ClassData(int rank) {
    torch::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 + rank));
    x = torch::randn({64, 6}, generator);
    y = x.slice(1, 0, 3).argmax(1);
  }
  torch::Tensor x, y;
  torch::Tensor loss(NormedNet& net, std::int64_t step) const {
    const std::int64_t at = step % 4 * 16;
    return torch::nn::functional::cross_entropy(net.forward(x.narrow(0, at, 16)), y.narrow(0, at, 16));
  }
};

double net_difference(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, (a[i] - b[i]).abs().max().item<double>() / (1e-6 + b[i].abs().max().item<double>()));
  return most;
}

std::vector<torch::Tensor> net_state(const NormedNet& net) {
  std::vector<torch::Tensor> all;
  for (const auto& tensor : net.parameters()) all.push_back(tensor.detach().clone());
  for (const auto& tensor : net.buffers()) all.push_back(tensor.detach().clone().to(torch::kFloat32));
  return all;
}

struct NetCase {
  const char* strategy;
  AgreeOptions options;
};

TEST(AgreeNet, LearnsAndEndsWithTheSameNetOnAllRanks) {
  const std::vector<NetCase> cases{
      {"ring", {}},
      {"leader-ring", {}},
      {"ps-async", {.servers = 2}},
      {"ps-ssp", {}},
      {"diloco", {.steps = 4, .fragments = 2, .delay = 1, .codec = {.name = "int8"}}},
      {"gossip-exponential", {}},
      {"fedavg", {.local_epochs = 2, .steps_per_epoch = 4}},
      {"fedadam", {.batch_norm = strategy::Statistics::local, .outer = {.learning_rate = 0.1}, .steps_per_epoch = 4}},
  };
  for (const NetCase& one : cases) {
    SCOPED_TRACE(one.strategy);
    std::vector<std::vector<torch::Tensor>> ends(3);
    std::vector<double> before(3), after(3);
    on_loop_ranks(3, [&](const ProcessGroup& group) {
      const auto rank = static_cast<std::size_t>(group->getRank());
      const auto net = normed_net_of(rank);
      const ClassData data(group->getRank());
      torch::optim::Adam optimiser(net->parameters(), torch::optim::AdamOptions(0.02));
      Agreement agreement = agree(net, optimiser, group, one.strategy, one.options);
      const std::vector<torch::Tensor> frozen = net_state(*net);
      for (int step = 0; step < 32; ++step) {
        optimiser.zero_grad();
        const torch::Tensor loss = data.loss(*net, step);
        (step < 4 ? before : after)[rank] += step < 4 || step >= 28 ? loss.item<double>() : 0;
        loss.backward();
        agreement.step();
      }
      agreement.finish();
      ends[rank] = net_state(*net);
      EXPECT_EQ(agreement.steps(), 32u);
      EXPECT_TRUE(torch::equal(net->frozen->weight, frozen[4])) << "a frozen layer has changed";
    });
    for (std::size_t rank = 0; rank < 3; ++rank) {
      ASSERT_EQ(ends[rank].size(), ends[0].size());
      for (std::size_t i = 0; i < ends[0].size(); ++i)
        EXPECT_TRUE(torch::equal(ends[rank][i], ends[0][i])) << "rank " << rank << ", tensor " << i;
      EXPECT_LT(after[rank], 0.8 * before[rank]);
    }
  }
}

TEST(AgreeNet, StatisticsAreAveragedAtTheEndOfAnEpoch) {
  for (const char* strategy : {"ring", "local-sgd", "diloco", "gossip-exponential", "ring-passes", "ring-groups"}) {
    SCOPED_TRACE(strategy);
    on_loop_ranks(2, [&](const ProcessGroup& group) {
      const auto net = normed_net_of(3);
      const ClassData data(group->getRank());
      torch::optim::SGD optimiser(net->parameters(), 0.1);
      Agreement agreement = agree(net, optimiser, group, strategy, {.steps_per_epoch = 4});
      const auto is_mean = [&] {
        const torch::Tensor held = net->norm->running_mean.clone();
        std::vector<torch::Tensor> sum{held.clone()};
        group->allreduce(sum)->wait();
        return torch::allclose(sum[0] / 2, held);
      };
      for (int step = 1; step <= 8; ++step) {
        optimiser.zero_grad();
        data.loss(*net, step).backward();
        agreement.step();
        EXPECT_EQ(is_mean(), step % 4 == 0) << step;
      }
      agreement.finish();
    });
  }
}

TEST(AgreeNet, InFp32ARingTakesTheStepsOfOneWorkerWithTheWholeBatch) {
  std::vector<std::vector<torch::Tensor>> ends(2);
  // Without batch norm, whose statistics depend on how a batch is divided.
  const auto loss_of_all = [](NormedNet& net, const std::vector<ClassData>& data, int step) {
    torch::Tensor sum = torch::zeros({});
    net.norm->eval();
    for (const ClassData& one : data) sum = sum + data[0].loss(net, step) * 0 + one.loss(net, step) / 2;
    return sum;
  };
  on_loop_ranks(2, [&](const ProcessGroup& group) {
    const auto net = normed_net_of(3);
    net->norm->eval();
    const ClassData data(group->getRank());
    torch::optim::SGD optimiser(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    Agreement agreement = agree(net, optimiser, group, "ring");
    for (int step = 0; step < 20; ++step) {
      optimiser.zero_grad();
      data.loss(*net, step).backward();
      agreement.step();
    }
    agreement.finish();
    ends[static_cast<std::size_t>(group->getRank())] = net_state(*net);
  });
  const auto net = normed_net_of(3);
  const std::vector<ClassData> data{ClassData(0), ClassData(1)};
  torch::optim::SGD optimiser(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 20; ++step) {
    optimiser.zero_grad();
    loss_of_all(*net, data, step).backward();
    optimiser.step();
  }
  EXPECT_LE(net_difference(ends[0], net_state(*net)), 1e-4);
  EXPECT_LE(net_difference(ends[1], ends[0]), 0);
}

TEST(AgreeNet, TheOptimiserStepsOnTheLoopsThreadAndKeepsItsState) {
  struct Watched : torch::optim::SGD {
    using torch::optim::SGD::SGD;
    torch::Tensor step(LossClosure) override {
      ++steps;
      on_own_thread = on_own_thread && std::this_thread::get_id() == own;
      return torch::optim::SGD::step();
    }
    const std::thread::id own = std::this_thread::get_id();
    bool on_own_thread = true;
    int steps = 0;
  };
  on_loop_ranks(2, [&](const ProcessGroup& group) {
    const auto line = std::make_shared<Line>();
    Watched optimiser({line->weight}, torch::optim::SGDOptions(0.1).momentum(0.9));
    Agreement agreement = agree(line, optimiser, group, "local-sgd", {.steps = 3, .delay = 1});
    for (int step = 0; step < 50; ++step) {
      optimiser.zero_grad();
      (line->weight - group->getRank()).square().sum().backward();
      agreement.step();
    }
    EXPECT_EQ(optimiser.state().size(), 1u);
    EXPECT_EQ(optimiser.steps, 50);
    EXPECT_TRUE(optimiser.on_own_thread);
    agreement.finish();
  });
}

TEST(AgreeNet, GradientsAreTheStrategysAfterwardsWhetherZeroedInPlaceOrNot) {
  on_loop_ranks(2, [&](const ProcessGroup& group) {
    torch::nn::Linear line(3, 1);  // held as LibTorch holds its own
    torch::optim::SGD optimiser(line->parameters(), torch::optim::SGDOptions(0.1));
    Agreement agreement = agree(line, optimiser, group, "ring");
    for (const bool to_none : {true, false, true}) {
      optimiser.zero_grad(to_none);
      (line->forward(torch::ones({1, 3})) * (1.0 + 2 * group->getRank())).sum().backward();
      agreement.step();
      EXPECT_TRUE(torch::equal(line->weight.grad(), torch::full({1, 3}, 2.0)));
    }
    agreement.finish();
  });
}

TEST(AgreeNet, BeforeUpdateIsWhereGradientsAreClippedAsInOneProcess) {
  for (const char* strategy : {"ring", "accumulate", "local-sgd"}) {
    on_loop_ranks(2, [&](const ProcessGroup& group) {
      AgreeingRank mine(group);
      int calls = 0;
      const auto clip = [&] {
        ++calls;
        torch::nn::utils::clip_grad_norm_({mine.line->weight}, 0.5);
      };
      const AgreeOptions options{.before_update = clip};  // local-sgd: no exchange in the 5 steps
      Agreement agreement = agree(mine.line, mine.optimiser, group, strategy, options);
      mine.take(agreement, 5);
      // One process, on what the optimiser steps on: the mean loss, or with local-sgd this rank's own.
      const bool is_local = std::string_view(strategy) == "local-sgd";
      const torch::Tensor alone = torch::zeros({13}, torch::dtype(torch::kFloat64).requires_grad(true));
      torch::optim::SGD optimiser({alone}, 0.1);
      for (int step = 0; step < 5; ++step) {
        optimiser.zero_grad();
        const auto loss = [&](int rank) { return (alone - rank).square().sum(); };
        (is_local ? loss(mine.rank) : (loss(0) + loss(1)) / 2).backward();
        torch::nn::utils::clip_grad_norm_({alone}, 0.5);
        optimiser.step();
      }
      EXPECT_TRUE(torch::allclose(mine.line->weight, alone, 0, 1e-14)) << strategy;
      EXPECT_EQ(calls, 5) << strategy;
      agreement.finish();
    });
  }
}

TEST(AgreeNet, SeveralAgreementsAndCollectivesOfOneGroupDoNotMix) {
  on_loop_ranks(2, [&](const ProcessGroup& group) {
    const auto one = std::make_shared<Line>(), other = std::make_shared<Line>();
    torch::optim::SGD of_one({one->weight}, 0.1), of_other({other->weight}, 0.1);
    Agreement first = agree(one, of_one, group, "ring");
    Agreement second = agree(other, of_other, group, "diloco", {.steps = 2});
    for (int step = 0; step < 10; ++step) {
      for (auto& line : {one, other}) {
        line->zero_grad();
        (line->weight - 1 - group->getRank()).square().sum().backward();
      }
      std::vector<at::Tensor> tensors{torch::full({4}, 1.0)};
      const auto sum = group->allreduce(tensors, {});
      first.step();
      second.step();
      sum->wait();
      EXPECT_EQ(tensors[0][0].item<float>(), 2);
    }
    second.finish();
    first.finish();
    EXPECT_NEAR(one->weights()[0], 1.5 * (1 - std::pow(0.8, 10)), 1e-12);
  });
}

}  // namespace
}  // namespace ripieno::loop
