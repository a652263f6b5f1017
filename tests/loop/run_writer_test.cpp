// Runs that loops of one's own write, read back as reports read them.
#include "ripieno/loop/run_writer.h"

#include <filesystem>

#include "ripieno/core/file.h"
#include "ripieno/loop/distributed_data_parallel.h"
#include "ripieno/observe/run_lock.h"
#include "ripieno/report/live.h"
#include "ripieno/report/loop_file.h"
#include "ripieno/report/run.h"
#include "tests/loop/line.h"
#include "tests/support/temporary_folder.h"

namespace ripieno::loop {
namespace {

namespace fs = std::filesystem;

torch::nn::Sequential wide_net() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(16, 512), torch::nn::Tanh(), torch::nn::Linear(512, 4));
}
constexpr std::uint64_t parameters_of_net = 16 * 512 + 512 + 512 * 4 + 4;

/// A loop of `epochs` epochs with two steps each.
void train(RunWriter& run, torch::nn::Sequential net, int epochs, double accuracy) {
  torch::optim::SGD optimiser(net->parameters(), 0.1);
  optimiser.zero_grad();
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (int step = 0; step < 2; ++step) {
      torch::Tensor loss;
      {
        const auto stage = run.stage("forward");
        loss = net->forward(torch::ones({8, 16})).square().mean();
      }
      {
        const auto stage = run.stage("backward");
        loss.backward();
      }
      {
        const auto stage = run.stage("optimise");
        optimiser.step();
      }
      run.step({.loss = loss.item<double>(), .samples = 8, .learning_rate = 0.1});
    }
    run.epoch({.accuracy = accuracy, .loss = 1});
  }
}

struct Loops : ::testing::Test {
  /// Trains on `size` ranks, and returns rank 0's folder.
  fs::path write(int size, RunWriterOptions options) {
    options.folder = folder.path();
    fs::path written;
    on_loop_ranks(size, [&](const ProcessGroup& group) {
      torch::nn::Sequential net = wide_net();
      DistributedDataParallel ddp(net, group);
      RunWriter run(group, options);
      run.watch(net->parameters());
      train(run, net, 2, 0.75);
      run.finish();
      run.finish();
      if (group->getRank() == 0) written = run.folder();
    });
    return written;
  }
  const TemporaryFolder folder;
};

TEST_F(Loops, ARunIsReadBackAsItWas) {
  const fs::path place = write(2, {.name = "wide",
                                   .strategy = "ddp",
                                   .model = "wide",
                                   .seed = 3,
                                   .epochs = 2,
                                   .steps_per_epoch = 2,
                                   .settings = {{"rate", "0.1"}, {"by", "SGD"}}});
  EXPECT_EQ(place.filename(), "0001-wide");
  const report::Run run = report::read_run(place);
  const report::Summary& all = run.summary;
  EXPECT_EQ(all.name, "wide");
  EXPECT_EQ(all.kind, "computed");
  EXPECT_EQ(all.seed, 3);
  EXPECT_EQ(all.world_size, 2);
  EXPECT_EQ(all.epochs, 2);
  EXPECT_EQ(all.steps, 4u);
  EXPECT_EQ(all.parameters, parameters_of_net);
  ASSERT_TRUE(all.test);
  EXPECT_EQ(all.test->accuracy, 0.75);
  EXPECT_GT(all.images_per_second, 0);
  ASSERT_EQ(all.ranks.size(), 2u);
  EXPECT_EQ(all.ranks[0].parameters_hash, all.ranks[1].parameters_hash);
  ASSERT_EQ(all.ranks[1].ways.size(), 2u);
  EXPECT_TRUE(all.ranks[1].ways[0] == "shared memory" || all.ranks[1].ways[0] == "tcp") << all.ranks[1].ways[0];
  using observe::Stage;
  for (const Stage stage : {Stage::forward, Stage::backward, Stage::exchange, Stage::optimise, Stage::other})
    EXPECT_GT(all.seconds.stages[stage], 0) << observe::info(stage).name;
  // A ring of two: each sends half the gradients twice; and what ranks compare and which parameters they used.
  const std::uint64_t gradients = 4 * parameters_of_net * all.steps;
  for (const report::RankSummary& rank : all.ranks) {
    EXPECT_GE(rank.exchange_payload_sent, gradients);
    EXPECT_LT(rank.exchange_payload_sent, gradients + 4000);
    std::uint64_t in_lines = 0;
    const report::Metrics& lines = run.ranks[static_cast<std::size_t>(rank.rank)];
    ASSERT_EQ(lines.steps.size(), 4u);
    for (const report::StepLine& step : lines.steps) in_lines += step.bytes.value().payload_sent;
    for (const report::EpochLine& epoch : lines.epochs) in_lines += epoch.bytes.value().payload_sent;
    EXPECT_EQ(in_lines, rank.exchange_payload_sent);
    double steps = 0;
    for (const report::StepLine& step : lines.steps) steps += step.seconds.steps();
    EXPECT_LE(steps, lines.epochs[0].seconds + lines.epochs[1].seconds);
  }
  EXPECT_EQ(run.workers().size(), 2u);
  const report::LoopFile loop = report::read_loop(place / "loop.json");
  EXPECT_EQ(loop.settings, (std::map<std::string, std::string>{{"rate", "0.1"}, {"by", "\"SGD\""}}));
  EXPECT_FALSE(observe::is_running(place));
  const report::RunNow now = report::run_now(run.all_ranks());
  EXPECT_EQ(now.fraction, 1);
  EXPECT_EQ(now.epochs, 2u);
}

TEST_F(Loops, ASingleProcessSendsNothing) {
  RunWriter run(nullptr, {.folder = folder.path()});
  EXPECT_TRUE(observe::is_running(run.folder()));
  for (int step = 0; step < 3; ++step) run.step({.loss = 1, .samples = 4});
  run.epoch();
  run.finish();
  const report::Run read = report::read_run(run.folder());
  EXPECT_TRUE(read.summary.counts_bytes);
  EXPECT_EQ(read.summary.bytes.payload_sent, 0u);
  EXPECT_FALSE(read.summary.test);
  EXPECT_EQ(read.workers(), std::vector<int>{0});
  const report::RunNow now = report::run_now(read.all_ranks());
  EXPECT_FALSE(now.is_planned);
}

TEST_F(Loops, StepsAfterTheLastEpochAreOneMore) {
  RunWriter run(nullptr, {.folder = folder.path()});
  for (int step = 0; step < 3; ++step) run.step({.samples = 4});
  run.finish();
  const report::Summary all = report::read_run(run.folder()).summary;
  EXPECT_EQ(all.epochs, 1);
  EXPECT_EQ(all.seconds.epoch.size(), 1u);
  EXPECT_GT(all.images_per_second, 0);
}

TEST_F(Loops, TheTestOfARunIsThatOfTheLastEpochThatHasOne) {
  RunWriter run(nullptr, {.folder = folder.path()});
  for (const auto& accuracy : {std::optional(0.5), std::optional(0.75), std::optional<double>()}) {
    run.step({.samples = 4});
    run.epoch({.accuracy = accuracy});
  }
  run.step({.samples = 4});
  run.finish();
  const report::Summary all = report::read_run(run.folder()).summary;
  EXPECT_EQ(all.epochs, 4);
  ASSERT_TRUE(all.test);
  EXPECT_EQ(all.test->accuracy, 0.75);
}

TEST_F(Loops, WithoutItsEndARunIsUnfinished) {
  fs::path place;
  {
    RunWriter run(nullptr, {.folder = folder.path(), .name = "cut", .model = "net"});
    place = run.folder();
    run.step({.loss = 0.5, .samples = 4});
    run.epoch({.accuracy = 0.5, .loss = 2});
    run.step({.loss = 0.25, .samples = 4});
  }
  EXPECT_FALSE(report::is_finished(place));
  EXPECT_FALSE(observe::is_running(place));
  const report::Run run = report::read_unfinished(place, report::read_loop(place / "loop.json").known);
  EXPECT_TRUE(run.summary.unfinished);
  EXPECT_EQ(run.summary.name, "cut");
  EXPECT_EQ(run.summary.model, "net");
  EXPECT_EQ(run.summary.steps, 2u);
  EXPECT_EQ(run.summary.epochs, 1);
}

TEST_F(Loops, ALoopThatGoesOnCountsFromTheFirstRunsBeginning) {
  const report::Run run = report::read_run(write(1, {.epochs = 5, .steps_per_epoch = 2, .first_epoch = 3}));
  EXPECT_EQ(run.ranks[0].steps[0].step, 6u);
  EXPECT_EQ(run.ranks[0].epochs[1].epoch, 4u);
  EXPECT_EQ(run.summary.epochs, 2);
}

TEST_F(Loops, OfAnAgreementTheOptimisersTimeIsItsOwn) {
  fs::path place;
  on_loop_ranks(2, [&](const ProcessGroup& group) {
    torch::nn::Sequential net = wide_net();
    torch::optim::Adam optimiser(net->parameters(), 0.1);
    Agreement agreement = agree(net, optimiser, group, "local-sgd", {.steps = 2});
    RunWriter run(group, {.folder = folder.path(), .strategy = "local-sgd"});
    run.follow(agreement);
    for (int step = 0; step < 4; ++step) {
      optimiser.zero_grad();
      net->forward(torch::ones({8, 16})).square().mean().backward();
      {
        const auto stage = run.stage("exchange");
        agreement.step();
      }
      run.step({.samples = 8});
    }
    agreement.finish();
    run.epoch();
    run.finish();
    if (group->getRank() == 0) place = run.folder();
  });
  const report::Run run = report::read_run(place);
  for (const report::StepLine& step : run.ranks[0].steps) {
    EXPECT_GT(step.seconds[observe::Stage::optimise], 0);
    EXPECT_GE(step.seconds[observe::Stage::exchange], 0);
  }
  EXPECT_FALSE(run.summary.not_finite);
  EXPECT_FALSE(run.ranks[0].steps[0].loss);
  EXPECT_LT(run.ranks[0].steps[0].bytes.value().payload_sent, 1000u);
  EXPECT_GT(run.ranks[0].steps[1].bytes.value().payload_sent, 4 * parameters_of_net - 1);
}

TEST_F(Loops, TheFirstLossThatIsNoNumberIsNamed) {
  ::testing::internal::CaptureStderr();
  RunWriter run(nullptr, {.folder = folder.path()});
  run.step({.loss = 1, .samples = 4});
  run.epoch();
  run.step({.loss = std::numeric_limits<double>::infinity(), .samples = 4});
  run.step({.loss = std::numeric_limits<double>::quiet_NaN(), .samples = 4});
  run.finish();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "ripieno: warning: the training loss of rank 0 was inf at step 1, in epoch 2; the loop goes on\n");
  const auto found = report::read_run(run.folder()).summary.not_finite;
  ASSERT_TRUE(found);
  EXPECT_EQ(described(*found), "the training loss of rank 0 was inf at step 1, in epoch 2");
}

TEST_F(Loops, RanksThatDescribeOtherRunsAreTold) {
  on_loop_ranks(2, [&](const ProcessGroup& group) {
    const std::string line = first_line_of_error(
        [&] { RunWriter(group, {.folder = folder.path(), .model = group->getRank() == 0 ? "wide" : "narrow"}); });
    EXPECT_EQ(line,
              "ranks describe different runs: rank 1 has \"model\": \"narrow\" and rank 0 \"model\": \"wide\"; "
              "give all the same options");
  });
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST_F(Loops, WhatKeepsOneRankFromItIsToldToAll) {
  write_file(folder.path() / "file", "");
  on_loop_ranks(2, [&](const ProcessGroup& group) {
    const bool is_first = group->getRank() == 0;
    const std::string full =
        first_line_of_error([&] { RunWriter(group, {.folder = folder.path() / "file" / "runs"}); });
    EXPECT_NE(full.find((folder.path() / "file").string()), std::string::npos) << full;
    EXPECT_EQ(full.starts_with("rank 0 could not go on: "), !is_first) << full;
    RunWriterOptions mine{.folder = folder.path()};
    if (!is_first) mine.sample_every = -from_seconds(1);
    const std::string line = first_line_of_error([&] { RunWriter(group, mine); });
    EXPECT_EQ(line, text(is_first ? "rank 1 could not go on: " : "", "sample_every is negative; 0 is never"));
    RunWriter(group, {.folder = folder.path()});  // the group goes on
  });
}

TEST_F(Loops, ARunThatEndsAtOnceIsNotRemovedBeforeAllHaveBegunIt) {
  on_loop_ranks(2, [&](const ProcessGroup& group) {
    for (int run = 0; run < 50; ++run) RunWriter(group, {.folder = folder.path()});  // rank 0 removes it: nothing came
  });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(Loops, WrongCallsAreNamed) {
  const auto refused = [&](RunWriterOptions options) {
    options.folder = folder.path();
    return first_line_of_error([&] { RunWriter(nullptr, options); });
  };
  EXPECT_EQ(refused({.name = ""}), "a run's name is empty; give one");
  EXPECT_NE(refused({.name = "a/b"}).find("name = \"a/b\" holds a /"), std::string::npos);
  EXPECT_EQ(refused({.epochs = 3, .first_epoch = 3}),
            "the first epoch is 3 and epochs is 3, counted from the first run's beginning: give more");
  RunWriter run(nullptr, {.folder = folder.path()});
  const auto error = [](const std::function<void()>& act) { return first_line_of_error(act); };
  EXPECT_EQ(error([&] { run.step({.samples = -1}); }), "a step of -1 samples; it must be 0 or more");
  EXPECT_EQ(error([&] { run.epoch({.accuracy = 91}); }), "an accuracy of 91; it must be from 0 to 1");
  EXPECT_EQ(error([&] { run.epoch({.loss = 1}); }), "an epoch with a test loss and no accuracy; give both");
  EXPECT_NE(error([&] { run.stage("fore"); }).find("there is no stage fore; known are read,"), std::string::npos);
  {
    const auto stage = run.stage("read");
    EXPECT_EQ(error([&] { run.step({}); }), "a step ends within the stage read: end that before");
  }
  run.finish();
  EXPECT_EQ(error([&] { run.step({}); }), "step() after finish()");
  EXPECT_EQ(error([&] { run.epoch(); }), "epoch() after finish()");
}

TEST_F(Loops, ARunDoesNotOutliveItsGroupsMembers) {
  std::vector<std::string> handles(2);
  std::atomic<int> there = 0;
  on_loop_ranks(2, [&](const ProcessGroup& group) {
    RunWriter run(group, {.folder = folder.path()});
    run.step({});
    handles[static_cast<std::size_t>(group->getRank())] = group->reconfigure_handle();
    ++there;
    while (there < 2) std::this_thread::yield();
    group->reconfigure_to(7, handles, std::chrono::seconds(60));
    for (const auto& [name, call] : std::map<std::string, std::function<void()>>{
             {"step()", [&] { run.step({}); }}, {"epoch()", [&] { run.epoch(); }}, {"finish()", [&] { run.finish(); }}})
      EXPECT_EQ(first_line_of_error(call).find(name + ": the group was formed anew while the run was written"), 0u);
    RunWriter(group, {.folder = folder.path()}).finish();  // another one
  });
}

TEST_F(Loops, ANetWhoseRunIsWrittenCanBecomeParallel) {
  on_loop_ranks(2, [&](const ProcessGroup& group) {
    torch::nn::Sequential net = wide_net();
    RunWriter run(group, {.folder = folder.path()});
    run.watch(net->parameters());
    DistributedDataParallel ddp(net, group);
    train(run, net, 1, 0.5);
    run.finish();
  });
}

}  // namespace
}  // namespace ripieno::loop
