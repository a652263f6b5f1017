#include "ripieno/report/figures.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ripieno/report/statistics.h"
#include "tests/report/runs.h"

namespace ripieno::report {
namespace {

using testing::made_run;
using Numbers = std::vector<double>;

const Series& named(const Figure& figure, const std::string& name) {
  for (const Series& series : figure.series) {
    if (series.name == name) return series;
  }
  throw std::logic_error(figure.id + " has no series " + name);
}

TEST(Figures, AccuracyIsTheMeanOverSeedsOverEpochsSecondsAndBytes) {
  const std::vector<report::Run> runs{made_run("ring", 2, 0), made_run("ring", 2, 2), made_run("fedavg", 2, 0)};
  const Figure figure = accuracy_figure(cells(runs));
  ASSERT_EQ(figure.series.size(), 2u);
  const Series& ring = named(figure, "ring");
  EXPECT_EQ(ring.x,
            (std::vector<Numbers>{
                {1, 2}, {99, 197}, {60, 120}}));  // seconds of training; 3 and 6 steps of 10 MB on each of 2 ranks
  EXPECT_EQ(ring.y, (Numbers{50, 91}));
  ASSERT_EQ(ring.spread.size(), 2u);
  EXPECT_EQ(ring.spread[0], 0);
  EXPECT_DOUBLE_EQ(ring.spread[1], interval95({90, 92}));
  EXPECT_EQ(ring.sources[1].line, 10u);  // after a start, three steps, an epoch, a sample and three steps
  EXPECT_EQ(ring.sources[1].file, runs[0].ranks[0].file);
  EXPECT_TRUE(named(figure, "fedavg").spread.empty());
}

TEST(Figures, AnEpochThatWasNotEvaluatedIsNoPoint) {
  std::vector<report::Run> runs{made_run("ring", 2, 0)};
  for (Metrics& rank : runs[0].ranks) rank.epochs[0].test.reset();
  const Series series = accuracy_figure(cells(runs)).series.at(0);
  EXPECT_EQ(series.y, (Numbers{90}));
  EXPECT_EQ(series.x[2], (Numbers{120}));
  for (Metrics& rank : runs[0].ranks) rank.epochs[1].test.reset();
  EXPECT_TRUE(accuracy_figure(cells(runs)).series.empty());
}

TEST(Figures, LossIsThatOfAllSamples) {
  std::vector<report::Run> runs{made_run("ring", 2, 0)};
  for (StepLine& step : runs[0].ranks[1].steps) {
    step.samples *= 3;
    *step.loss += 1;
  }
  EXPECT_EQ(loss_figure(cells(runs)).series.at(0).y, (Numbers{2.75, 1.75}));
}

TEST(Figures, StagesAreMeansOfAWorkersStep) {
  std::vector<report::Run> runs{made_run("ring", 2, 0)};
  runs[0].ranks.emplace_back();  // a server trains nothing
  const Figure figure = stages_figure(cells(runs));
  EXPECT_EQ(figure.categories, (std::vector<std::string>{"ring"}));
  const Numbers milliseconds{1, 2, 3, 0, 4};
  ASSERT_EQ(figure.series.size(), milliseconds.size());
  for (std::size_t i = 0; i < milliseconds.size(); ++i)
    EXPECT_DOUBLE_EQ(figure.series[i].y.at(0), milliseconds[i]) << figure.series[i].name;
  const Figure exchange = exchange_figure(cells(runs));
  EXPECT_DOUBLE_EQ(named(exchange, "waited for").y.at(0), 4);
  EXPECT_DOUBLE_EQ(named(exchange, "hidden").y.at(0), 5);
}

TEST(Figures, ABlockIsTheMeanOfItsStepsHoweverFewTheyAre) {
  const report::Run run = made_run("ring", 2, 0);
  const Figure figure = blocks_figure(run, 4);
  EXPECT_EQ(figure.categories, (std::vector<std::string>{"0 – 3", "4 – 5"}));
  EXPECT_DOUBLE_EQ(named(figure, "backward").y[0], 3);
  EXPECT_DOUBLE_EQ(named(figure, "backward").y[1], 3);
  EXPECT_EQ(figure.y_title, "ms a step");
  EXPECT_EQ(named(figure, "backward").sources[1].line, run.ranks[1].steps[4].line);
}

TEST(Figures, TheParetoFrontIsOfCellsThatNoOtherBeats) {
  std::vector<report::Run> runs{made_run("much", 2, 3), made_run("little", 2, 0), made_run("worse", 2, 1)};
  runs[1].summary.exchange_payload_sent = 1'000'000;
  runs[2].summary.exchange_payload_sent = 500'000'000;
  const Figure figure = bytes_figure(cells(runs));
  ASSERT_EQ(figure.series.size(), 4u);
  const Series& front = named(figure, "Pareto front");
  EXPECT_EQ(front.x[0], (Numbers{1, 120}));
  EXPECT_EQ(front.y, (Numbers{90, 93}));
}

TEST(Figures, ScalingBeginsAtTheFewestWorkers) {
  std::vector<report::Run> runs{made_run("single", 1, 0), made_run("ring", 2, 0), made_run("ring", 4, 0)};
  runs[2].summary.images_per_second = 300;
  EXPECT_EQ(throughput_figure(cells(runs)).series.at(0).y, (Numbers{100, 200, 300}));
  const Figure speedup = speedup_figure(cells(runs)), efficiency = efficiency_figure(cells(runs));
  const Series& strong = named(speedup, "ring, mnist-cnn, batch 64 (strong)");
  EXPECT_EQ(strong.x[0], (Numbers{1, 2, 4}));
  EXPECT_EQ(strong.y, (Numbers{1, 2, 3}));
  EXPECT_EQ(named(efficiency, "ring, mnist-cnn, batch 64 (strong)").y, (Numbers{100, 100, 75}));
  EXPECT_EQ(speedup.series.size(), 1u);  // batches of a worker are 64, 32 and 16

  const std::vector<report::Run> weak{made_run("ring", 2, 0, 64), made_run("ring", 4, 0, 128)};
  EXPECT_EQ(speedup_figure(cells(weak)).series.at(0).name, "ring, mnist-cnn, batch 32 a worker (weak)");
}

TEST(Figures, ScalingTellsLinksAndSlownessApart) {
  std::vector<report::Run> runs;
  for (const char* slow : {"[0.1, 0.1, 0.1, 0.1]", "[]"}) {
    for (const int workers : {1, 2, 4}) {
      runs.push_back(made_run(workers == 1 ? "single" : "ring", workers, 0));
      runs.back().settings = {{"transport.kind", "\"simulated\""},
                              {"simulated.mbit_s", "1000.0"},
                              {"simulated.latency_us", "50.0"},
                              {"simulated.slow", slow}};
    }
  }
  Figure speedup = speedup_figure(cells(runs));
  EXPECT_EQ(named(speedup, "compute 0.1 times as slow").x[0], (Numbers{1, 2, 4}));
  for (std::size_t i = 0; i < 3; ++i)
    runs[i].settings["simulated.slow"] = "[]", runs[i].settings["simulated.slow_all"] = "0.1";
  EXPECT_EQ(named(speedup_figure(cells(runs)), "compute 0.1 times as slow").x[0], (Numbers{1, 2, 4}));
  EXPECT_EQ(named(speedup, "compute at its own speed").x[0], (Numbers{1, 2, 4}));
  EXPECT_NE(speedup.caption.find("1000 Mb/s, 50 µs"), std::string::npos) << speedup.caption;

  for (std::size_t i = 3; i < 6; ++i) runs[i].settings["simulated.mbit_s"] = "100.0";
  for (report::Run& run : runs) run.settings["simulated.slow"] = "[]", run.settings.erase("simulated.slow_all");
  speedup = speedup_figure(cells(runs));
  EXPECT_EQ(named(speedup, "1000 Mb/s, 50 µs").x[0], (Numbers{1, 2, 4}));
  EXPECT_EQ(named(speedup, "100 Mb/s, 50 µs").x[0], (Numbers{1, 2, 4}));
}

TEST(Figures, ScalingTellsCoresAndThreadsApart) {
  std::vector<report::Run> runs;
  for (const char* cpu : {"0.45", "0.0"}) {
    for (const int workers : {1, 2, 4}) {
      runs.push_back(made_run(workers == 1 ? "single" : "ring", workers, 0));
      runs.back().settings = {{"lab.cpu", cpu}, {"lab.nodes", std::to_string(workers)}, {"train.threads", "1"}};
    }
  }
  runs.push_back(made_run("single", 1, 1));  // no lab: its other keys have no effect
  runs.back().settings = {{"lab.cpu", "0.45"}, {"lab.nodes", "0"}, {"train.threads", "1"}};
  runs.back().summary.images_per_second *= 10;
  Figure speedup = speedup_figure(cells(runs));
  EXPECT_EQ(named(speedup, "0.45 cores a node").x[0], (Numbers{1, 2, 4}));
  EXPECT_EQ(named(speedup, "0.45 cores a node").y[1], 2) << "as fast as two of it";
  EXPECT_EQ(named(speedup, "one thread a worker").x[0], (Numbers{1, 2, 4}));

  runs.pop_back();
  for (std::size_t i = 0; i < 6; ++i) runs[i].settings = {{"train.threads", i < 3 ? "2" : "1"}};
  speedup = speedup_figure(cells(runs));
  EXPECT_EQ(named(speedup, "2 threads a worker").x[0], (Numbers{1, 2, 4}));
  EXPECT_EQ(named(speedup, "one thread a worker").x[0], (Numbers{1, 2, 4}));
}

TEST(Figures, CpuAndNetworkAreRates) {
  std::vector<report::Run> runs{made_run("ring", 2, 0)};
  for (SampleLine& sample : runs[0].ranks[0].samples) sample.machine_user = 3, sample.machine_system = 0.5;
  const Figure cpu = cpu_figure(runs[0]), network = network_figure(runs[0]);
  ASSERT_EQ(cpu.series.size(), 3u);
  EXPECT_EQ(cpu.series[1].y, (Numbers{87.5, 87.5}));
  EXPECT_EQ(cpu.series[2].name, "all of host");
  EXPECT_EQ(cpu.series[2].y, (Numbers{175, 175}));
  EXPECT_EQ(network.series[0].y, (Numbers{2, 2}));
  EXPECT_NE(network.caption.find("loopback"), std::string::npos);
  EXPECT_EQ(named(cpu_means_figure(cells(runs)), "user").y, (Numbers{75}));
  EXPECT_EQ(network_means_figure(cells(runs)).series.at(0).y, (Numbers{2}));

  report::Run apart = runs[0];
  for (Metrics& rank : apart.ranks) {
    for (SampleLine& sample : rank.samples) sample.bytes_sent = 5e6, sample.bytes_received = 3e6;
  }
  // Sent, in every figure of the network that does not say otherwise.
  EXPECT_EQ(network_figure(apart).series[0].y, (Numbers{2.5, 2.5}));
  EXPECT_EQ(network_figure(apart, Direction::received).series[0].y, (Numbers{1.5, 1.5}));
  EXPECT_TRUE(network_figure(runs[0], Direction::received).series.empty());  // a loopback receives what it sends
  EXPECT_EQ(network_means_figure(cells({apart})).series.at(0).y, (Numbers{2.5}));
  for (const Figure& figure : {network_figure(apart), packets_figure(apart), network_means_figure(cells({apart})),
                               network_timeline_figure(cells({apart}))}) {
    EXPECT_NE(figure.title.find("sent"), std::string::npos) << figure.title;
    EXPECT_NE(figure.y_title.find("sent"), std::string::npos) << figure.y_title;
  }
}

TEST(Figures, RepeatsOfASeedHaveNoIntervalOverSeeds) {
  std::vector<report::Run> runs{made_run("ring", 2, 1), made_run("ring", 2, 1), made_run("ring", 2, 1)};
  runs[1].summary.images_per_second = 500;
  const auto all = cells(runs);
  EXPECT_TRUE(measure_figure(all, "images_s", "").series.at(0).spread.empty());
  EXPECT_EQ(measure_figure(all, "images_s", "").series[0].y, (Numbers{300}));
  EXPECT_TRUE(accuracy_figure(all).series.at(0).spread.empty());
  EXPECT_TRUE(bytes_figure(all).series.at(0).spread.empty());
}

TEST(Figures, ALossThatIsNotFiniteIsNamed) {
  std::vector<report::Run> runs{made_run("ring", 2, 4)};
  EXPECT_EQ(loss_figure(cells(runs)).caption.find("not a finite number"), std::string::npos);
  runs[0].ranks[1].steps.back().loss = NAN;
  const Figure figure = loss_figure(cells(runs));
  EXPECT_EQ(figure.series.at(0).y, (Numbers{2}));
  EXPECT_NE(figure.caption.find("ring, seed 4: not a finite number from epoch 2 on"), std::string::npos)
      << figure.caption;
}

TEST(Figures, PacketsAreOfANetwork) {
  report::Run run = made_run("ring", 2, 0);
  EXPECT_TRUE(packets_figure(run).series.empty());
  for (Metrics& rank : run.ranks) {
    for (SampleLine& sample : rank.samples)
      sample.bytes_sent = 1e6, sample.packets_sent = 600, sample.packets_received = 400;
  }
  EXPECT_EQ(packets_figure(run).series.at(1).y, (Numbers{300, 300}));
  EXPECT_EQ(packets_figure(run, Direction::received).series.at(1).y, (Numbers{200, 200}));
}

TEST(Figures, ScalingTellsNodesAndKindsApart) {
  std::vector<report::Run> runs{made_run("ring", 1, 0), made_run("ring", 2, 0), made_run("ring", 4, 0),
                                made_run("two", 4, 0)};
  for (report::Run& run : runs) run.summary.strategy = "ring";
  for (std::size_t rank = 0; rank < 4; ++rank) runs[3].ranks[rank].start->network = text("net:", rank / 2);
  runs[3].summary.images_per_second = 200;
  const Figure nodes = speedup_figure(cells(runs));
  EXPECT_EQ(named(nodes, "ring").y, (Numbers{1, 2, 4}));
  EXPECT_EQ(named(nodes, "ring, 2 nodes").y, (Numbers{1, 2}));
  EXPECT_TRUE(nodes.caption.ends_with(" All: mnist-cnn, batch 64 (strong).")) << nodes.caption;
  for (std::size_t i : {1, 2}) runs[i].summary.kind = "projected";
  EXPECT_EQ(named(speedup_figure(cells(runs)), "ring, projected").y, (Numbers{2, 4}));
  EXPECT_EQ(named(speedup_figure(cells(runs)), "ring, 2 nodes, computed").y, (Numbers{1, 2}));

  std::vector<report::Run> kinds{made_run("ring", 2, 0), made_run("ring", 4, 0), made_run("two", 2, 0),
                                 made_run("two", 4, 0)};
  for (report::Run& run : kinds) run.summary.strategy = "ring";
  for (std::size_t i : {2, 3}) kinds[i].summary.kind = "projected";
  const Figure apart = speedup_figure(cells(kinds));
  ASSERT_EQ(apart.series.size(), 2u);
  EXPECT_EQ(apart.series[0].name, "computed");
  EXPECT_EQ(apart.series[1].name, "projected");
}

TEST(Figures, LinesOfOtherSettingsAreApart) {
  std::vector<report::Run> runs{made_run("ring", 2, 0), made_run("ring", 4, 0), made_run("ring", 2, 0),
                                made_run("ring", 4, 0)};
  for (std::size_t i = 0; i < runs.size(); ++i)
    runs[i].settings = {{"train.precision", i < 2 ? "\"fp32\"" : "\"bf16\""}, {"workers", i % 2 == 0 ? "2" : "4"}};
  const Figure figure = speedup_figure(cells(runs));
  ASSERT_EQ(figure.series.size(), 2u);
  EXPECT_EQ(named(figure, "precision fp32").y, (Numbers{2, 4}));
  EXPECT_EQ(named(figure, "precision bf16").y, (Numbers{2, 4}));
  EXPECT_TRUE(figure.caption.find("All: ring, mnist-cnn, batch 64 (strong)") != std::string::npos) << figure.caption;
}

TEST(Figures, WhoDoesNotTrainIsAServer) {
  report::Run run = made_run("ps-sync", 3, 0);
  for (StepLine& step : run.ranks[0].steps) step.seconds[observe::Stage::forward] = 0;
  EXPECT_EQ(network_figure(run).series[0].name, "rank 0, server");
  EXPECT_EQ(network_figure(run).series[1].name, "rank 1");
}

TEST(Figures, ATimelineOfAllRuns) {
  std::vector<report::Run> runs{made_run("ring", 2, 0), made_run("ring", 2, 1), made_run("ddp", 4, 0)};
  const Figure figure = network_timeline_figure(cells(runs));  // all ranks see the same 4 MB in 2 s
  ASSERT_EQ(figure.series.size(), 2u);
  EXPECT_EQ(figure.series[0].y.at(97), 0);
  EXPECT_EQ(figure.series[0].y.at(98), 2);
  EXPECT_EQ(figure.series[0].y.at(99), 2);
  EXPECT_EQ(figure.series[0].y.at(100), 0);
  EXPECT_EQ(figure.series[1].x[0].front(), 201);
  EXPECT_EQ(figure.series[1].y.at(199), 2);
  for (std::size_t rank = 0; rank < 4; ++rank) runs[2].ranks[rank].start->network = text("net:", rank / 2);
  EXPECT_EQ(network_timeline_figure(cells(runs)).series[1].y.at(199), 4);  // two nodes
}

TEST(Figures, AMeasureOfEachCell) {
  const std::vector<report::Run> runs{made_run("ring", 2, 0), made_run("ring", 2, 1), made_run("ddp", 4, 0)};
  const Figure figure = measure_figure(cells(runs), "mb_sent", "Sent");
  EXPECT_EQ(figure.categories, (std::vector<std::string>{"ring", "ddp"}));
  EXPECT_EQ(figure.series.at(0).y, (Numbers{120, 240}));
  EXPECT_EQ(figure.series[0].spread, (Numbers{0, 0}));
}

TEST(Figures, TheFirstScreenSplitsAnEpochAndLeavesEvaluationOut) {
  std::vector<report::Run> runs{made_run("ring", 2, 0), made_run("ring", 2, 2), made_run("fedavg", 2, 0)};
  runs[1].summary.seconds.epoch = {101, 100};
  for (RankSummary& rank : runs[1].summary.ranks) rank.seconds.epoch = runs[1].summary.seconds.epoch;
  const auto all = cells(runs);
  const Figure epoch = epoch_figure(all), sent = sent_figure(all), progress = progress_figure(all);
  EXPECT_EQ(epoch.categories, (std::vector<std::string>{"ring", "fedavg"}));
  EXPECT_EQ(named(epoch, "computing").y, (Numbers{97.5, 96.5}));  // of 99.5 and 98.5 s
  EXPECT_EQ(named(epoch, "waiting for the exchange").y, (Numbers{2, 2}));
  EXPECT_DOUBLE_EQ(named(epoch, "waiting for the exchange").spread.at(0), interval95({98.5, 100.5}));
  EXPECT_EQ(sent.series.at(0).y, (Numbers{30, 30}));
  EXPECT_TRUE(sent.series[0].spread.empty()) << "nothing varies";
  EXPECT_EQ(progress.series.at(0).x, (std::vector<Numbers>{{99, 197}}));
  for (const Figure& figure : {epoch, sent, progress}) EXPECT_EQ(figure.tier, Tier::summary) << figure.id;
}

TEST(Figures, StalenessIsAShareOfGradients) {
  std::vector<report::Run> runs{made_run("ps-async", 2, 0), made_run("ring", 2, 0)};
  runs[0].summary.ranks[0].staleness = std::map<std::int64_t, std::uint64_t>{{0, 1}, {2, 3}};
  const Figure figure = staleness_figure(cells(runs));
  EXPECT_EQ(figure.categories, (std::vector<std::string>{"0", "1", "2"}));
  ASSERT_EQ(figure.series.size(), 1u);
  EXPECT_EQ(figure.series[0].y, (Numbers{25, 0, 75}));
}

TEST(Cells, OfOneNameOverOtherLinksAreNoSeedsOfEachOther) {
  std::vector<report::Run> runs{made_run("ring", 2, 0), made_run("ring", 2, 1), made_run("ring", 2, 0),
                                made_run("ring", 2, 1)};
  for (std::size_t i = 0; i < runs.size(); ++i)
    runs[i].settings = {{"lab.mbit_s", i < 2 ? "100.0" : "40.0"}, {"train.epochs", i < 2 ? "5" : "2"}};
  const auto all = cells(runs);
  EXPECT_EQ(names_of(all), (std::vector<std::string>{"ring, 100 Mb/s", "ring, 40 Mb/s"}));
  EXPECT_EQ(all[1].runs.size(), 2u);
}

/// One earlier run of the name with many other settings.
TEST(Cells, TheShortestWordsTellWaysOfOneNameApart) {
  std::vector<report::Run> runs{made_run("ring", 2, 0), made_run("ring", 2, 0), made_run("ring", 2, 0)};
  const char* keys[] = {"batch.global", "data.train_samples", "optimiser.momentum", "learning_rate.base",
                        "train.epochs"};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const char* key : keys) runs[i].settings[key] = i == 0 ? "1" : "2";
  }
  runs.pop_back();
  EXPECT_EQ(names_of(cells(runs)), (std::vector<std::string>{"ring, global 1", "ring, global 2"}));
  runs.push_back(runs[1]);
  runs[2].settings["train.epochs"] = "3";  // which tells all three apart
  EXPECT_EQ(names_of(cells(runs)), (std::vector<std::string>{"ring, epochs 1", "ring, epochs 2", "ring, epochs 3"}));
  runs[2].settings["train.epochs"] = "2";
  runs[2].settings["optimiser.momentum"] = "1";  // only two properties do
  EXPECT_EQ(names_of(cells(runs)),
            (std::vector<std::string>{"ring, global 1, optimiser.momentum 1", "ring, global 2, optimiser.momentum 2",
                                      "ring, global 2, optimiser.momentum 1"}));
  runs.resize(2);
  runs[0].settings.erase("batch.global");  // a run that lacks the key says less
  EXPECT_EQ(names_of(cells(runs)), (std::vector<std::string>{"ring, train_samples 1", "ring, train_samples 2"}));
}

TEST(Cells, OfOneNameAreToldApart) {
  const std::vector<report::Run> runs{made_run("ring", 2, 0), made_run("ring", 2, 1), made_run("ring", 4, 0),
                                      made_run("ddp", 2, 0)};
  const auto all = cells(runs);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].runs.size(), 2u);
  EXPECT_EQ(names_of(all), (std::vector<std::string>{"ring, 2 ranks", "ring, 4 ranks", "ddp"}));
}

}  // namespace
}  // namespace ripieno::report
