// What agree() refuses, and how the ranks of a loop learn of each other's errors.
#include <atomic>
#include <thread>

#include "tests/loop/line.h"

namespace ripieno::loop {
namespace {

struct RefusedAgreement {
  const char* strategy;
  AgreeOptions options;
  const char* sentence;
};

TEST(AgreeErrors, WhatCannotWorkIsRefusedOnAllRanksWithItsReason) {
  const std::vector<RefusedAgreement> all{
      {"lokal-sgd", {}, "did you mean \"local-sgd\""},
      {"ddp", {}, "it exchanges while backward() runs, and step() comes after that; take Distributed"},
      {"fedavg", {}, "its rounds are of whole epochs, and the loop has none; give steps_per_epoch"},
      {"ps-async", {.uneven_batches = true}, "no batch is weighed against other ranks' batches of the same step"},
      {"ring", {.steps = 4}, "strategy ring has no use for the option steps; leave it out"},
      {"gossip-pairs", {.servers = 2}, "strategy gossip-pairs has no use for the option servers"},
      {"diloco", {.outer = {.beta1 = 0.5}}, "strategy diloco has no use for the option outer.beta1"},
      {"ring", {.route = "direct"}, "strategy ring has no use for the option route"},
      {"gossip-pairs", {.segment_kb = 4}, "strategy gossip-pairs has no use for the option segment_kb"},
      {"ring", {.codec = {.name = "int8", .bits = 2}}, "codec int8 has no use for the option codec.bits; leave it out"},
      {"ring", {.codec = {.name = "int8", .fraction = 0.1}}, "codec int8 has no use for the option codec.fraction"},
      {"ring", {.codec = {.name = "topk", .rank = 3}}, "codec topk has no use for the option codec.rank"},
      {"ring", {.codec = {.error_feedback = false}}, "codec auto has no use for the option codec.error_feedback"},
      {"single", {}, "it is one worker alone"},
      {"gossip-pairs", {.codec = {.name = "int8"}}, "what a codec loses of these in every step is never made up for"},
      {"ring", {.codec = {.name = "int9"}}, "int8"},
      {"ps-sync", {.servers = 3}, "every shard lives beside a worker of its own"},
      {"local-sgd", {.steps = 4, .delay = 5}, "a fragment's exchange would meet the next one's"},
      {"local-sgd", {.steps = 4, .fragments = 2}, "fragments are whole tensors, and the model has 1"},
      {"local-sgd", {.steps = 0}, "steps = 0; give 1 or more"},
      {"ring-passes", {.passes = 3}, "a worker has no more predecessors than there are workers"},
      {"ring", {.bucket_mb = 0}, "bucket_mb = 0; give more than 0"},
      {"ring", {.own_rates = true}, "strategy ring has no use for the option own_rates"},
  };
  on_loop_ranks(2, [&](const ProcessGroup& group) {
    for (const RefusedAgreement& one : all) {
      AgreeingRank mine(group);
      const std::string line =
          first_line_of_error([&] { agree(mine.line, mine.optimiser, group, one.strategy, one.options); });
      expect_part(line, one.sentence);
      EXPECT_EQ(line.find('\n'), std::string::npos);
    }
    AgreeingRank mine(group);  // the group is as good as new
    Agreement agreement = agree(mine.line, mine.optimiser, group, "ring");
    mine.take(agreement, 3);
    agreement.finish();
  });
}

TEST(AgreeErrors, OptimisersThatCannotStepAreRefusedWithTheReason) {
  on_loop_ranks(2, [&](const ProcessGroup& group) {
    const auto line = std::make_shared<Line>(), other = std::make_shared<Line>();
    const std::vector<torch::Tensor> weights{line->weight};
    using namespace torch::optim;
    LBFGS lbfgs(weights, LBFGSOptions(0.1));
    expect_part(first_line_of_error([&] { agree(line, lbfgs, group, "ring"); }),
                "LBFGS, which computes the loss again");
    RMSprop rmsprop(weights, RMSpropOptions(0.1));
    expect_part(first_line_of_error([&] { agree(line, rmsprop, group, "ps-sync"); }), "and know SGD, Adam and AdamW");
    Adam amsgrad(weights, AdamOptions(0.1).amsgrad(true));
    expect_part(first_line_of_error([&] { agree(line, amsgrad, group, "ps-async"); }), "cannot with amsgrad");
    SGD dampened(weights, SGDOptions(0.1).momentum(0.9).dampening(0.5));
    expect_part(first_line_of_error([&] { agree(line, dampened, group, "ps-sync"); }), "cannot with dampening = 0.5");
    SGD grouped(std::vector<OptimizerParamGroup>{OptimizerParamGroup(weights), OptimizerParamGroup({other->weight})},
                SGDOptions(0.1));
    expect_part(first_line_of_error([&] { agree(line, grouped, group, "ps-sync"); }),
                "it has 2 groups; make it with one");
    expect_part(first_line_of_error([&] { agree(line, grouped, group, "ring"); }), "that the net does not have");
    SGD others({other->weight}, SGDOptions(0.1));
    expect_part(first_line_of_error([&] { agree(line, others, group, "ring"); }), "that the net does not have");
    expect_part(first_line_of_error([&] { agree(std::shared_ptr<Line>(), others, group, "ring"); }),
                "there is no model");
  });
}

TEST(AgreeErrors, RanksThatWantDifferentThingsAreTold) {
  on_loop_ranks(2, [&](const ProcessGroup& group) {
    AgreeingRank mine(group);
    const AgreeOptions own{.steps = mine.rank == 0 ? 8u : 4u};
    expect_part(first_line_of_error([&] { agree(mine.line, mine.optimiser, group, "diloco", own); }),
                "rank 1 has steps 4, fragments 1, delay 0 where rank 0 has steps 8");
    const char* const strategy = mine.rank == 0 ? "ring" : "ddp";
    expect_part(
        first_line_of_error([&] { agree(mine.line, mine.optimiser, group, strategy); }),
        mine.rank == 0 ? "rank 1 failed in agree(): strategy ddp" : "strategy ddp in a loop of one's own cannot be");
  });
}

TEST(AgreeErrors, ParametersThatComeOrGoLaterAreNamed) {
  const std::pair<std::function<void(torch::nn::Sequential&)>, const char*> changes[] = {
      {[](auto& net) { net->parameters()[2].set_requires_grad(true); },
       "parameter 1.weight was unfrozen after agree()"},
      {[](auto& net) { net->parameters()[0].set_requires_grad(false); }, "parameter 0.weight was frozen after agree()"},
      {[](auto& net) { net->push_back(torch::nn::Linear(1, 1)); }, "parameter 2.weight was added after agree()"}};
  for (const auto& [change, sentence] : changes) {
    on_loop_ranks(2, [&, &change = change, sentence = sentence](const ProcessGroup& group) {
      torch::nn::Sequential net(torch::nn::Linear(2, 2), torch::nn::Linear(2, 1));
      net->parameters()[2].set_requires_grad(false);
      torch::optim::SGD optimiser(net->parameters(), 0.1);
      Agreement agreement = agree(net.ptr(), optimiser, group, "ring");
      const auto step = [&] {
        net->zero_grad();
        net->forward(torch::ones({1, 2})).sum().backward();
        agreement.step();
      };
      const auto change_between_steps = [&] {
        step();  // in which the other rank's error may come
        change(net);
        step();
      };
      expect_part(first_line_of_error(change_between_steps), sentence);
    });
  }
}

/// A rank of the next test, which launches it.
TEST(AgreeErrors, DISABLED_RankOfALaunchedJob) {
  const ProcessGroup group = init_process_group({.timeout = std::chrono::seconds(3)});
  EXPECT_EQ(group->getSize(), 2);
  AgreeingRank mine(group);
  Agreement agreement = agree(mine.line, mine.optimiser, group, "ring");
  for (int step = 0; step < 4; ++step) {
    mine.take(agreement);
    std::this_thread::sleep_for(std::chrono::seconds(1));  // in all longer than the timeout
  }
  agreement.finish();
  EXPECT_EQ(agreement.steps(), 4);
}

TEST(AgreeErrors, TheTimeoutOfALaunchedGroupIsOfAWaitNotOfTheWholeLoop) {
  const char* const command =
      "tests=$(readlink /proc/$PPID/exe); exec \"$(dirname \"$tests\")/ripieno\" launch -n 2 -- \"$tests\" "
      "--gtest_also_run_disabled_tests --gtest_brief=1 --gtest_filter=AgreeErrors.DISABLED_RankOfALaunchedJob";
  EXPECT_EQ(std::system(command), 0);
}

/// Two ranks of which rank 1 takes so many steps more than rank 0; returns each one's error.
std::vector<std::string> errors_after(const char* strategy, const AgreeOptions& options, int steps, int more) {
  std::vector<std::string> errors(2);
  on_loop_ranks(2, [&](const ProcessGroup& group) {
    AgreeingRank mine(group);
    Agreement agreement = agree(mine.line, mine.optimiser, group, strategy, options);
    errors[static_cast<std::size_t>(mine.rank)] = first_line_of_error([&] {
      mine.take(agreement, steps + (mine.rank == 1 ? more : 0));
      agreement.finish();
    });
  });
  return errors;
}

TEST(AgreeErrors, RanksWithUnequalStepsAreToldBothNumbers) {
  const std::string ring = "rank 0 called finish() after 3 steps, but rank 1 is in number 4: with this strategy";
  std::vector<std::string> errors = errors_after("ring", {}, 3, 1);
  expect_part(errors[1], ring);
  expect_part(errors[0], "rank 1 gave up: " + ring);
  // Without an exchange in the further steps, either may notice.
  errors = errors_after("local-sgd", {.steps = 8}, 3, 2);
  const std::string late = "rank 0 called finish() after 3 steps, but rank 1 is in number ",
                    least = "rank 1 called finish() after 5 steps, but rank 0 after 3",
                    most = "rank 0 called finish() after 3 steps, but rank 1 after 5";
  for (const std::string& error : errors) {
    EXPECT_TRUE(error.find(late) + 1 || error.find(least) + 1 || error.find(most) + 1) << error;
  }
  errors = errors_after("fedavg", {.steps_per_epoch = 2}, 4, 2);
  expect_part(errors[1], "rank 0 called finish() after 2 rounds, but rank 1 is in number 3");
  expect_part(errors[0], "rank 0 called finish() after 2 rounds, but rank 1 is in number 3");
}

TEST(AgreeErrors, WhereEachRankHasItsOwnPaceStepsMayDiffer) {
  for (const char* strategy : {"ps-async", "ps-ssp"}) {
    on_loop_ranks(3, [&](const ProcessGroup& group) {
      AgreeingRank mine(group);
      Agreement agreement = agree(mine.line, mine.optimiser, group, strategy);
      mine.take(agreement, 3 + 4 * mine.rank);
      agreement.finish();
      std::vector<at::Tensor> least{mine.line->weight.detach().clone()}, most{mine.line->weight.detach().clone()};
      group->allreduce(least, {.reduceOp = ::c10d::ReduceOp::MIN})->wait();
      group->allreduce(most, {.reduceOp = ::c10d::ReduceOp::MAX})->wait();
      EXPECT_TRUE(torch::equal(least[0], most[0]));
      EXPECT_GT(most[0][0].item<double>(), 0);
    });
  }
}

TEST(AgreeErrors, ARankThatLeavesIsNamedToTheOthers) {
  for (const char* strategy : {"ring", "leader-ring", "ps-sync", "ps-async", "diloco", "gossip-exponential"}) {
    SCOPED_TRACE(strategy);
    std::atomic<bool> left = false;
    on_loop_ranks(2, [&](const ProcessGroup& group) {
      AgreeingRank mine(group);
      try {
        Agreement agreement = agree(mine.line, mine.optimiser, group, strategy);
        if (mine.rank == 1) mine.take(agreement, 2);
        if (mine.rank == 1) throw std::runtime_error("no more data");
        expect_part(first_line_of_error([&] { mine.take(agreement, 1 << 30); }),
                    "rank 1 left the agreement after 2 steps, without finish()");
        expect_part(first_line_of_error([&] { agreement.finish(); }), "rank 1 left the agreement after 2 steps");
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "no more data");
        left = true;
      }
    });
    EXPECT_TRUE(left);
  }
}

TEST(AgreeErrors, WhatTheOptimiserThrowsIsThrownOnItsRankAndToldToOthers) {
  struct Failing : torch::optim::SGD {
    using torch::optim::SGD::SGD;
    torch::Tensor step(LossClosure) override {
      if (++steps == 3) throw std::runtime_error("no step today");
      return torch::optim::SGD::step();
    }
    int steps = 0;
  };
  for (const char* strategy : {"ring", "diloco"}) {
    on_loop_ranks(2, [&](const ProcessGroup& group) {
      AgreeingRank mine(group);
      Failing failing({mine.line->weight}, torch::optim::SGDOptions(0.1));
      torch::optim::Optimizer& own = mine.rank == 1 ? failing : mine.optimiser;
      Agreement agreement = agree(mine.line, own, group, strategy);
      const std::string line = first_line_of_error([&] { mine.take(agreement, 100); });
      if (mine.rank == 1) {
        EXPECT_EQ(line, "no step today");
      } else {
        expect_part(line, "rank 1 gave up: no step today");
      }
    });
  }
}

TEST(AgreeErrors, WhatALoopMayNotDoEndsItWithASentence) {
  on_loop_ranks(1, [&](const ProcessGroup& group) {
    AgreeingRank mine(group);
    Agreement agreement = agree(mine.line, mine.optimiser, group, "ring");
    mine.take(agreement);
    agreement.finish();
    agreement.finish();
    expect_part(first_line_of_error([&] { agreement.step(); }), "step() after finish()");
    Agreement even = agree(mine.line, mine.optimiser, group, "ring");
    expect_part(first_line_of_error([&] { even.step(16); }), "give uneven_batches to agree() on all ranks");
    Agreement moved = agree(mine.line, mine.optimiser, group, "ring");
    mine.line->weight.set_data(torch::ones({13}, torch::kFloat64));
    expect_part(first_line_of_error([&] { moved.step(); }), "were replaced (loaded, or moved?) before step() number 1");
    Agreement none = agree(mine.line, mine.optimiser, group, "ring", {.uneven_batches = true});
    expect_part(first_line_of_error([&] { none.step(0); }), "all workers' batches together have 0 samples");
  });
}

TEST(AgreeErrors, AllMayLeaveWithoutFinish) {
  for (const char* strategy : {"ring", "ps-async", "local-sgd", "fedavg"}) {
    on_loop_ranks(3, [&](const ProcessGroup& group) {
      AgreeingRank mine(group);
      AgreeOptions options;
      if (strategy == std::string("fedavg")) options.steps_per_epoch = 100;
      std::optional<Agreement> agreement(agree(mine.line, mine.optimiser, group, strategy, options));
      mine.take(*agreement, 2);
      std::vector<at::Tensor> met{torch::zeros({1})};
      group->allreduce(met, {})->wait();
      agreement.reset();
      group->allreduce(met, {})->wait();  // the group goes on
    });
  }
}

TEST(AgreeErrors, RanksThatPartAreToldWithBothValues) {
  for (const int steps : {1, 2}) {  // finish() finds it, or the next step
    std::array<std::string, 2> lines;
    on_loop_ranks(2, [&](const ProcessGroup& group) {
      AgreeingRank mine(group);
      Agreement agreement = agree(mine.line, mine.optimiser, group, "ring");
      lines[static_cast<std::size_t>(mine.rank)] = first_line_of_error([&] {
        mine.take(agreement);
        if (mine.rank == 1) mine.line->weight.data().fill_(7);
        mine.take(agreement, steps - 1);
        agreement.finish();
      });
    });
    for (const std::string& line : lines) {
      expect_part(line, "rank 1 holds 7 in weight[");
      expect_part(line, " where rank 0 holds ");
      expect_part(line, steps == 1 ? ", in finish(): whatever changes" : ", in step() number 2: whatever changes");
    }
  }
}

TEST(AgreeErrors, OtherLearningRatesAreToldAtTheBeginning) {
  for (const char* strategy : {"ring", "local-sgd", "gossip-pairs", "ps-async", "fedavg"}) {
    on_loop_ranks(2, [&](const ProcessGroup& group) {
      AgreeingRank mine(group);
      mine.optimiser.param_groups()[0].options().set_lr(mine.rank == 0 ? 0.1 : 0.2);
      AgreeOptions options;
      if (strategy == std::string("fedavg")) options.steps_per_epoch = 2;
      expect_part(
          first_line_of_error([&] { agree(mine.line, mine.optimiser, group, strategy, options); }),
          "rank 1 has the learning rate 0.2 where rank 0 has the learning rate 0.1: all ranks must have the same");
    });
  }
}

TEST(AgreeErrors, LearningRatesThatPartLaterAreToldInTheNextExchange) {
  const std::pair<const char*, const char*> cases[] = {{"ring", "step() number 2: "}, {"diloco", "step() number 4: "}};
  for (const auto& [strategy, when] : cases) {
    on_loop_ranks(2, [&, strategy = strategy, when = when](const ProcessGroup& group) {
      AgreeingRank mine(group);
      AgreeOptions options;
      if (strategy == std::string("diloco")) options.steps = 4;
      Agreement agreement = agree(mine.line, mine.optimiser, group, strategy, options);
      mine.take(agreement);
      if (mine.rank == 0) mine.optimiser.param_groups()[0].options().set_lr(0.05);  // a scheduler on one rank
      const std::string line = first_line_of_error([&] { mine.take(agreement, 9); });
      expect_part(line, "rank 1 holds 0.1 in the learning rate where rank 0 holds 0.05, in ");
      expect_part(line, when);
    });
  }
}

TEST(AgreeErrors, RanksMayHaveLearningRatesOfTheirOwnIfTheySaySo) {
  for (const char* strategy : {"local-sgd", "gossip-pairs"}) {
    on_loop_ranks(2, [&](const ProcessGroup& group) {
      AgreeingRank mine(group);
      mine.optimiser.param_groups()[0].options().set_lr(mine.rank == 0 ? 0.1 : 0.2);
      Agreement agreement = agree(mine.line, mine.optimiser, group, strategy, {.own_rates = true});
      mine.take(agreement, 16);
      agreement.finish();
    });
  }
}

TEST(AgreeErrors, OptimisersOfOtherParametersAreToldAtTheBeginning) {
  on_loop_ranks(2, [](const ProcessGroup& group) {
    torch::nn::Sequential net(torch::nn::Linear(3, 2), torch::nn::Linear(2, 1));
    std::vector<torch::Tensor> trained = net->parameters();
    if (group->getRank() == 1) trained.resize(2);
    torch::optim::SGD optimiser(trained, 0.1);
    expect_part(first_line_of_error([&] { agree(net, optimiser, group, "ring"); }),
                "rank 1 has nothing more where rank 0 has parameter 1.weight in the optimiser");
  });
}

TEST(AgreeErrors, ARankThatIsWaitedForTooLongIsNamed) {
  std::atomic<bool> told = false;
  on_loop_ranks(
      2,
      [&](const ProcessGroup& group) {
        AgreeingRank mine(group);
        Agreement agreement = agree(mine.line, mine.optimiser, group, "ring");
        if (mine.rank == 1) {
          while (!told) std::this_thread::yield();
          return;
        }
        std::string line = first_line_of_error([&] { mine.take(agreement); });
        expect_part(line, "rank 0: step() number 1 has timed out after its timeout of 2 s: it waits for rank 1");
        line = first_line_of_error([&] { agree(mine.line, mine.optimiser, group, "ring"); });
        expect_part(line, "rank 0: agree() number 1 has timed out after its timeout of 2 s: it waits for rank 1");
        told = true;
      },
      std::chrono::seconds(2));
}

}  // namespace
}  // namespace ripieno::loop
