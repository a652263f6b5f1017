// What a codec keeps from step to step never stops it: after a gradient of zeros, and after one that is not finite.
#include <sstream>

#include "ripieno/loop/agree.h"
#include "tests/loop/own_nets.h"

namespace ripieno::loop {
namespace {

constexpr int words = 40, width = 8, classes = 5, steps = 120;

/// The first row of the table never has a gradient, and under a head of zeros no row has one in the first step.
struct TableNet : torch::nn::Module {
  TableNet()
      : table(register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(words, width).padding_idx(0)))),
        head(register_module("head", torch::nn::Linear(width, classes))) {
    to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    table->weight.copy_(numbers({words, width}, 3));
    table->weight[0].zero_();
    for (torch::Tensor& parameter : head->parameters()) parameter.zero_();
  }

  torch::Tensor loss(int rank, int step) {
    const torch::Tensor chosen = torch::arange(16, torch::kLong).mul(7).add(rank * 11 + step * 5).remainder(words);
    return torch::nn::functional::cross_entropy(head->forward(table->forward(chosen)), chosen.remainder(classes));
  }

  torch::nn::Embedding table;
  torch::nn::Linear head;
};

/// How far the table's rows move in training, by its door.
using Moved = std::function<double(const ProcessGroup&)>;

double moved(TableNet& net, const std::function<void(const torch::Tensor& loss, int step)>& take, int rank) {
  const torch::Tensor before = net.table->weight.detach().clone();
  for (int step = 0; step < steps; ++step) take(net.loss(rank, step), step);
  return (net.table->weight.detach() - before).abs().max().item<double>();
}

double moved_by_ddp(const ProcessGroup& group, const CommunicationHook& hook) {
  const auto net = std::make_shared<TableNet>();
  DistributedDataParallel ddp(net, group, {.hook = hook});
  torch::optim::SGD optimiser(net->parameters(), 1.0);
  return moved(
      *net,
      [&](const torch::Tensor& loss, int) {
        optimiser.zero_grad();
        loss.backward();
        optimiser.step();
      },
      group->getRank());
}

double moved_by_agree(const ProcessGroup& group, const codec::CodecOptions& codec) {
  const auto net = std::make_shared<TableNet>();
  torch::optim::SGD optimiser(net->parameters(), 1.0);
  Agreement agreement = agree(net, optimiser, group, "ring", {.codec = codec});
  const double far = moved(
      *net,
      [&](const torch::Tensor& loss, int) {
        optimiser.zero_grad();
        loss.backward();
        agreement.step();
      },
      group->getRank());
  agreement.finish();
  return far;
}

TEST(CodecState, PowerSgdLearnsATableUnderAHeadOfZeros) {
  for (const int ranks : {2, 3}) {
    on_ranks(ranks, [&](const ProcessGroup& group) {
      const double plain = moved_by_ddp(group, nullptr);
      EXPECT_GT(plain, 0.1);
      for (const int rank : {1, 2, 4}) {
        EXPECT_NEAR(moved_by_ddp(group, hooks::powersgd(rank)), plain, 0.5 * plain) << "rank " << rank;
        EXPECT_NEAR(moved_by_agree(group, {.name = "powersgd", .rank = rank}), plain, 0.5 * plain) << "rank " << rank;
      }
    });
  }
}

constexpr CodecHook (*every_hook[])() = {
    [] { return hooks::int8(8); },   [] { return hooks::qsgd(4, 8); },  [] { return hooks::sign(8); },
    [] { return hooks::topk(0.3); }, [] { return hooks::powersgd(1); },
};

/// A step that overflows is one that a loss scale drops: it leaves nothing behind.
TEST(CodecState, HooksKeepNothingOfAStepThatIsNotFinite) {
  for (const auto& make : every_hook) {
    on_ranks(2, [&](const ProcessGroup& group) {
      std::vector<torch::Tensor> last;
      for (const bool overflows : {false, true}) {
        torch::nn::Sequential net = small_net();
        DistributedDataParallel ddp(net, group, {.hook = make()});
        for (int step = 0; step < 4; ++step) {
          if (step == 2 && !overflows) continue;
          net->zero_grad();
          const torch::Tensor loss = loss_of(net->forward(batch(group->getRank(), step)));
          (step == 2 && group->getRank() == 1 ? loss * std::numeric_limits<double>::infinity() : loss).backward();
          EXPECT_EQ(gradients(*net).isfinite().all().item<bool>(), step != 2);
        }
        last.push_back(gradients(*net));
      }
      EXPECT_EQ(distance(last[0], last[1]), 0);
    });
  }
}

void train_step(torch::nn::Sequential& net, int rank, int number) {
  net->zero_grad();
  loss_of(net->forward(batch(rank, number))).backward();
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : net->parameters()) parameter.sub_(0.1 * parameter.grad());
}

TEST(CodecState, HooksGoOnFromWhatTheyHaveSaved) {
  for (const auto& make : every_hook) {
    on_ranks(2, [&](const ProcessGroup& group) {
      const int rank = group->getRank();
      CodecHook hook = make(), other = make();
      torch::nn::Sequential net = small_net(), again = small_net();
      DistributedDataParallel ddp(net, group, {.hook = hook}), ddp_again(again, group, {.hook = other});
      std::stringstream file;
      for (int number = 0; number < 6; ++number) {
        if (number == 3) {
          torch::save(hook, file);
          train_step(again, rank, 9);  // forms its buckets as the other has
          const torch::NoGradGuard no_grad;
          for (std::size_t i = 0; i < net->parameters().size(); ++i) again->parameters()[i].copy_(net->parameters()[i]);
          torch::load(other, file);
        }
        train_step(net, rank, number);
        if (number >= 3) train_step(again, rank, number);
      }
      EXPECT_EQ(distance(weights(*net), weights(*again)), 0) << hook.codec();
      EXPECT_NE(distance(weights(*net), weights(*small_net())), 0);
    });
  }
}

TEST(CodecState, WhatAnotherHookHasSavedIsRefused) {
  const auto error_of = [](const std::function<void()>& act) -> std::string {
    try {
      act();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto errors = errors_on_ranks(2, [&](const ProcessGroup& group) {
    CodecHook hook = hooks::powersgd(1), other = hooks::powersgd(2), signs = hooks::sign();
    torch::nn::Sequential net = small_net(), again = small_net();
    DistributedDataParallel ddp(net, group, {.hook = hook}), ddp_again(again, group, {.hook = other});
    train_step(net, ddp.rank(), 0);
    train_step(net, ddp.rank(), 1);
    train_step(again, ddp.rank(), 0);
    std::stringstream file;
    torch::save(hook, file);
    EXPECT_EQ(
        error_of([&] { torch::load(signs, file); }),
        "what a hook with codec powersgd has saved is loaded into one with codec sign: make the hook with that codec");
    file.seekg(0);
    torch::load(other, file);
    train_step(again, ddp.rank(), 1);
  });
  for (const std::string& error : errors) EXPECT_TRUE(contains(error, "a hook's saved q has ")) << error;
}

TEST(CodecState, RanksWithOtherFactorsAreTold) {
  const auto errors = errors_on_ranks(2, [&](const ProcessGroup& group) {
    CodecHook hook = hooks::powersgd(1);
    torch::nn::Sequential net = small_net();
    DistributedDataParallel ddp(net, group, {.hook = hook});
    for (int number = 0; number < 3; ++number) train_step(net, ddp.rank(), number);
    std::stringstream file;
    torch::save(hook, file);
    for (int number = 3; number < 5; ++number) train_step(net, ddp.rank(), number);
    std::stringstream later;
    torch::save(hook, later);
    torch::load(hook, ddp.rank() == 0 ? file : later);
    train_step(net, ddp.rank(), 5);
  });
  for (const std::string& error : errors)
    EXPECT_TRUE(contains(error, "have other factors for bucket 0: load what each rank")) << error;
}

}  // namespace
}  // namespace ripieno::loop
