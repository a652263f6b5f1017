// Runs made up for the tests of reports: numbers that can be checked by hand.
#pragma once

#include <sstream>

#include "ripieno/core/error.h"
#include "ripieno/report/run.h"

namespace ripieno::testing {

/// From 1.
inline std::string line_of(const std::string& text, std::size_t number) {
  std::istringstream lines(text);
  std::string line;
  for (std::size_t i = 0; i < number; ++i) std::getline(lines, line);
  return line;
}

/// Workers 0 .. n-1 of two epochs of three steps. A step takes 1 ms to read, 2 forward, 3 backward, 4 of exchange that
/// it waits for and 5 hidden, and sends 10 MB a rank; it has `batch` / n samples a rank. Epochs end at 100 and 200 s
/// with 50 and 90 + seed %.
inline report::Run made_run(const std::string& name, int workers, std::int64_t seed, std::uint32_t batch = 64) {
  report::Run run;
  run.folder = "runs/" + name + std::to_string(seed);
  report::Summary& s = run.summary;
  s.name = s.strategy = name;
  s.codec = "fp32";
  s.model = "mnist-cnn";
  s.dataset = "digits";
  s.world_size = workers;
  s.epochs = 2;
  s.steps = 6;
  s.seed = seed;
  s.test = report::TestResult{0.9 + 0.01 * static_cast<double>(seed), 0.25};
  s.seconds = {210, {99, 98}, {1, 2, 3, 4, 0.5, 0, 5}};
  s.images_per_second = 100.0 * workers;
  s.exchange_payload_sent = static_cast<std::uint64_t>(workers) * 60'000'000;
  s.closed_form_payload_sent = static_cast<std::uint64_t>(workers) * 30'000'000;
  for (int rank = 0; rank < workers; ++rank) {
    report::Metrics metrics;
    metrics.file = run.folder / text("metrics-", rank, ".jsonl");
    metrics.start = report::StartLine{1, rank, workers, "host", "net:1", 0, 2, 3};
    std::size_t line = 1;
    for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
      for (std::uint32_t step = 0; step < 3; ++step) {
        report::StepLine one;
        one.line = ++line;
        one.epoch = epoch;
        one.step = epoch * 3 + step;
        one.time = epoch * 100 + step * 30 + 30;
        one.loss = epoch == 0 ? 2 : 1;
        one.samples = batch / static_cast<std::uint32_t>(workers);
        one.seconds = {0.001, 0.002, 0.003, 0.004, 0, 0, 0, 0.005};
        one.bytes = report::ByteCounts{.payload_sent = 10'000'000};
        metrics.steps.push_back(one);
      }
      report::EpochLine end;
      end.line = ++line;
      end.time = epoch * 100 + 100;
      end.epoch = epoch;
      end.bytes.emplace();
      end.seconds = 99 - epoch;
      end.test = report::TestResult{epoch == 0 ? 0.5 : s.test->accuracy, 0.25};
      metrics.epochs.push_back(end);
      report::SampleLine sample;
      sample.line = ++line;
      sample.time = end.time;
      sample.seconds = 2;
      sample.cpu_user = 1.5;
      sample.cpu_system = 0.25;
      sample.loopback_bytes = 4e6;
      metrics.samples.push_back(sample);
    }
    run.ranks.push_back(metrics);
    report::RankSummary own;
    own.rank = rank;
    own.exchange_payload_sent = 60'000'000;
    own.seconds = s.seconds;
    s.ranks.push_back(own);
  }
  run.summary_text = report::to_json(s);
  return run;
}

struct Made {
  double seconds = 10, megabytes = 100;  // an epoch; of the busiest rank
  double first = 80, last = 95;          // per cent of the test set after each of two epochs
  double waited = 4;                     // of an epoch's seconds
};

/// A run of two workers and two epochs like this, with what follows from it.
inline report::Run made(const std::string& name, std::int64_t seed, const Made& what) {
  report::Run run = made_run(name, 2, seed);
  report::Summary& s = run.summary;
  s.seconds.epoch = {what.seconds, what.seconds};
  s.test->accuracy = what.last / 100;
  for (report::RankSummary& rank : s.ranks) {
    rank.exchange_payload_sent = static_cast<std::uint64_t>(2e6 * what.megabytes / (rank.rank == 1 ? 1 : 2));
    rank.seconds.epoch = s.seconds.epoch;
    rank.seconds.stages[observe::Stage::exchange] = 2 * what.waited;
  }
  for (report::Metrics& rank : run.ranks) {
    for (report::EpochLine& epoch : rank.epochs) epoch.seconds = what.seconds;
    rank.epochs[0].test->accuracy = what.first / 100;
    rank.epochs[1].test->accuracy = what.last / 100;
  }
  run.exact = name == "ring" || name == "ddp" || name == "gather-scatter";
  run.summary_text = report::to_json(s);
  return run;
}

}  // namespace ripieno::testing
