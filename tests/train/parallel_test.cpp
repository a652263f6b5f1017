// The library's face over loopback: what a user's own loop comes to with each option, against the same loop in one
// process.
#include "ripieno/train/parallel.h"

#include <gtest/gtest.h>

#include "tests/train/tcp_learners.h"

namespace ripieno::train {
namespace {

using testing::on_ranks;

constexpr int all_samples = 24, all_steps = 12;
const std::vector<int> parts{0, 9, 13, 24};  // whose samples are whose: shares of 9, 4 and 11

struct Net : torch::nn::Module {
  Net() {
    first = register_module("first", torch::nn::Linear(6, 40));
    second = register_module("second", torch::nn::Linear(40, 3));
    to(torch::kFloat64);
    // Not torch's generator: ranks are threads, and it is everybody's.
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : parameters()) {
      const auto n = torch::arange(parameter.numel(), torch::kFloat64);
      parameter.copy_((torch::sin(n * 1.7 + parameter.dim()) * 0.3).view(parameter.sizes()));
    }
  }
  torch::Tensor loss(const torch::Tensor& x, const torch::Tensor& y) {
    return torch::mse_loss(second(torch::tanh(first(x))), y);
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
};

/// The same for everybody; another batch every step.
std::pair<torch::Tensor, torch::Tensor> samples(int step, int begin, int end) {
  const auto n = torch::arange(all_samples * 6, torch::kFloat64).view({all_samples, 6});
  const auto x = torch::sin(n * 0.9 + step * 2.3);
  const auto y = torch::stack({x.sum(1).sin(), x.select(1, 0) * x.select(1, 1), x.select(1, 2).abs()}, 1);
  return {x.slice(0, begin, end), y.slice(0, begin, end)};
}

torch::optim::SGD optimiser_of(const Net& net) {
  return torch::optim::SGD(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-3));
}

std::vector<double> numbers(const Net& net) {
  std::vector<double> all;
  for (const torch::Tensor& parameter : net.parameters()) {
    const torch::Tensor flat = parameter.detach().contiguous().view(-1);
    all.insert(all.end(), flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
  }
  return all;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0;
  for (std::size_t i = 0; i < a.size(); ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(square);
}

/// One process on the whole batches.
std::vector<double> whole_batches() {
  Net net;
  auto optimiser = optimiser_of(net);
  for (int step = 0; step < all_steps; ++step) {
    const auto [x, y] = samples(step, 0, all_samples);
    optimiser.zero_grad();
    net.loss(x, y).backward();
    optimiser.step();
  }
  return numbers(net);
}

struct Outcome {
  std::vector<std::vector<double>> weights;  // by rank, after the last step
  std::vector<std::vector<bool>> agreed;     // by step: does a rank hold what rank 0 holds
  std::uint64_t bytes = 0;                   // of the exchange, sent by all
};

/// A user's loop on three workers of different shares.
Outcome run(const ParallelOptions& options) {
  const int ranks = static_cast<int>(parts.size()) - 1;
  Outcome outcome;
  outcome.weights.resize(ranks);
  std::vector<std::vector<std::vector<double>>> history(ranks);
  std::vector<std::uint64_t> bytes(ranks);
  const auto errors = on_ranks(ranks, [&](transport::Cluster& cluster) {
    const int rank = cluster.endpoint->rank();
    const auto net = std::make_shared<Net>();
    if (rank > 0) {
      const torch::NoGradGuard no_grad;  // rank 0's count
      net->first->weight.mul_(rank);
    }
    auto optimiser = optimiser_of(*net);
    auto dp = parallel(net, optimiser, cluster, options);
    for (int step = 0; step < all_steps; ++step) {
      const auto [x, y] = samples(step, parts[rank], parts[rank + 1]);
      const auto loss = dp.step(
          [&, x = x, y = y] {
            const auto loss = net->loss(x, y);
            loss.backward();
            return loss;
          },
          parts[rank + 1] - parts[rank]);
      EXPECT_TRUE(std::isfinite(loss.item<double>()));
      history[rank].push_back(numbers(*net));
    }
    outcome.weights[rank] = numbers(*net);
    bytes[rank] = dp.ledger().total(observe::Purpose::exchange).payload_sent;
    dp.sum(0);  // nobody leaves before all have what they were sent
  });
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(errors[rank], "") << "rank " << rank;
    outcome.bytes += bytes[rank];
  }
  for (int step = 0; step < all_steps; ++step) {
    outcome.agreed.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) {
      outcome.agreed.back().push_back(history[rank].size() > static_cast<std::size_t>(step) &&
                                      history[rank][step] == history[0][step]);
    }
  }
  return outcome;
}

const std::vector<bool> all_agree{true, true, true};

TEST(Parallel, TakesTheWholeBatchsStepsWithAndWithoutOverlap) {
  const std::vector<double> expected = whole_batches(), start = numbers(Net());
  for (const char* route : {"ring", "halving-doubling", "direct"}) {
    for (const double bucket_mb : {25.0, 0.0005}) {
      std::vector<Outcome> both;
      for (const bool overlap : {false, true}) {
        ParallelOptions options;
        options.route = route;
        options.bucket_mb = bucket_mb;
        options.overlap = overlap;
        const Outcome& outcome = both.emplace_back(run(options));
        EXPECT_EQ(outcome.agreed, std::vector<std::vector<bool>>(all_steps, all_agree)) << route << " " << overlap;
        EXPECT_LE(distance(outcome.weights[0], expected) / distance(expected, start), 1e-12) << route << " " << overlap;
      }
      EXPECT_EQ(both[0].weights, both[1].weights) << route;
      EXPECT_EQ(both[0].bytes, both[1].bytes) << route;
    }
  }
}

/// Local SGD of the same three workers in one process.
std::vector<double> local_sgd(int local_steps) {
  const std::size_t workers = parts.size() - 1;
  std::vector<Net> nets(workers);
  std::vector<torch::optim::SGD> optimisers;
  for (Net& net : nets) optimisers.push_back(optimiser_of(net));
  for (int step = 0; step < all_steps; ++step) {
    for (std::size_t w = 0; w < workers; ++w) {
      const auto [x, y] = samples(step, parts[w], parts[w + 1]);
      optimisers[w].zero_grad();
      nets[w].loss(x, y).backward();
      optimisers[w].step();
    }
    if ((step + 1) % local_steps != 0) continue;
    const torch::NoGradGuard no_grad;
    for (std::size_t p = 0; p < nets[0].parameters().size(); ++p) {
      torch::Tensor mean = torch::zeros_like(nets[0].parameters()[p]);
      for (std::size_t w = 0; w < workers; ++w)
        mean += nets[w].parameters()[p] * (parts[w + 1] - parts[w]) / static_cast<double>(all_samples);
      for (Net& net : nets) net.parameters()[p].copy_(mean);
    }
  }
  return numbers(nets[0]);
}

TEST(Parallel, LocalStepsAreLocalSgdWeightedBySamples) {
  const std::vector<double> start = numbers(Net());
  const std::uint64_t every_step = run({}).bytes;
  for (const int local_steps : {2, 4}) {
    const std::vector<double> expected = local_sgd(local_steps);
    for (const bool overlap : {false, true}) {
      ParallelOptions options;
      options.local_steps = local_steps;
      options.overlap = overlap;
      const Outcome outcome = run(options);
      EXPECT_LE(distance(outcome.weights[0], expected) / distance(expected, start), 1e-12) << local_steps;
      EXPECT_EQ(outcome.bytes * local_steps, every_step);
      for (int step = 0; step < all_steps; ++step) {
        if ((step + 1) % local_steps == 0) {
          EXPECT_EQ(outcome.agreed[step], all_agree) << "step " << step;
        } else {
          EXPECT_NE(outcome.agreed[step], all_agree) << "step " << step;
        }
      }
    }
  }
}

TEST(Parallel, CodecsLoseLittleAndAllHoldTheSame) {
  const std::vector<double> expected = whole_batches(), start = numbers(Net());
  ParallelOptions options;
  options.codec.name = "fp32";
  const std::uint64_t fp32 = run(options).bytes;
  struct Bound {
    const char* codec;
    double distance, bytes;  // relative to the way, and to fp32's
  };
  for (const Bound& bound :
       {Bound{"fp32", 1e-5, 1}, Bound{"fp16", 0.01, 0.5}, Bound{"bf16", 0.05, 0.5}, Bound{"int8", 0.1, 0.35},
        Bound{"topk", 0.9, 0.75}, Bound{"powersgd", 0.9, 1.1}}) {  // its factors travel in fp64, as the model is
    options.codec.name = bound.codec;
    options.codec.fraction = 0.2;
    for (const bool overlap : {false, true}) {
      options.overlap = overlap;
      options.bucket_mb = 0.001;
      const Outcome outcome = run(options);
      EXPECT_EQ(outcome.agreed, std::vector<std::vector<bool>>(all_steps, all_agree)) << bound.codec << " " << overlap;
      const double off = distance(outcome.weights[0], expected) / distance(expected, start);
      EXPECT_GT(off, 1e-10) << bound.codec << " loses nothing";
      EXPECT_LE(off, bound.distance) << bound.codec;
      EXPECT_LE(static_cast<double>(outcome.bytes), bound.bytes * static_cast<double>(fp32)) << bound.codec;
    }
  }
}

TEST(Parallel, LocalStepsTakeA16BitWire) {
  ParallelOptions options;
  options.local_steps = 2;
  options.codec.name = "fp16";
  const Outcome outcome = run(options);
  const std::vector<double> expected = local_sgd(2), start = numbers(Net());
  EXPECT_EQ(outcome.agreed.back(), all_agree);
  EXPECT_LE(distance(outcome.weights[0], expected) / distance(expected, start), 0.02);
}

/// Two ranks look words up; returns the table after three steps.
std::vector<double> table_after_steps(bool sparse, bool overlap) {
  std::vector<double> table;
  const auto errors = on_ranks(2, [&](transport::Cluster& cluster) {
    const int rank = cluster.endpoint->rank();
    torch::nn::Embedding words(torch::nn::EmbeddingOptions(12, 2).sparse(sparse));
    words->to(torch::kFloat64);
    {
      const torch::NoGradGuard no_grad;
      words->weight.copy_(torch::sin(torch::arange(24, torch::kFloat64)).view({12, 2}));
    }
    torch::optim::SGD optimiser(words->parameters(), 0.5);
    ParallelOptions options;
    options.overlap = overlap;
    auto dp = parallel(words, optimiser, cluster, options);
    for (int step = 0; step < 3; ++step) {
      dp.step([&] {
        const auto loss = (words(torch::tensor({rank, step, 7})) - 1).square().mean();
        loss.backward();
        return loss;
      });
    }
    const torch::Tensor all = words->weight.detach().contiguous().view(-1);
    if (rank == 0) table.assign(all.data_ptr<double>(), all.data_ptr<double>() + all.numel());
  });
  EXPECT_EQ(errors, std::vector<std::string>(2)) << sparse << overlap;
  return table;
}

TEST(Parallel, ASparseGradientIsAveragedAsADenseOneIs) {
  for (const bool overlap : {false, true})
    EXPECT_EQ(table_after_steps(true, overlap), table_after_steps(false, overlap));
}

TEST(Parallel, WhoHasNoSamplesStillTakesTheStep) {
  for (const bool overlap : {false, true}) {
    std::vector<std::vector<double>> weights(2);
    const auto errors = on_ranks(2, [&](transport::Cluster& cluster) {
      const int rank = cluster.endpoint->rank();
      const auto net = std::make_shared<Net>();
      auto optimiser = optimiser_of(*net);
      ParallelOptions options;
      options.overlap = overlap;
      options.bucket_mb = 0.0005;
      auto dp = parallel(net, optimiser, cluster, options);
      for (int step = 0; step < all_steps; ++step) {
        const auto [x, y] = samples(step, 0, all_samples);
        const auto learn = [&, x = x, y = y] {
          const auto loss = net->loss(x, y);
          loss.backward();
          return loss;
        };
        const auto rest = [] { return torch::zeros({}); };
        if (step % 2 == rank) {
          dp.step(learn, all_samples);
        } else {
          dp.step(rest, 0);
        }
      }
      weights[rank] = numbers(*net);
      dp.sum(0);
    });
    EXPECT_EQ(errors, std::vector<std::string>(2)) << overlap;
    const std::vector<double> expected = whole_batches();
    EXPECT_EQ(weights[0], weights[1]);
    EXPECT_LE(distance(weights[0], expected), 1e-12 * distance(expected, numbers(Net())));
  }
}

TEST(Parallel, AnErrorInTheClosureEndsTheStepOnAll) {
  for (const bool overlap : {false, true}) {
    const auto errors = on_ranks(2, [&](transport::Cluster& cluster) {
      const auto net = std::make_shared<Net>();
      auto optimiser = optimiser_of(*net);
      ParallelOptions options;
      options.overlap = overlap;
      auto dp = parallel(net, optimiser, cluster, options);
      const auto [x, y] = samples(0, 0, all_samples);
      const auto closure = [&, x = x, y = y] {
        if (cluster.endpoint->rank() == 1) throw std::runtime_error("no such batch");
        const auto loss = net->loss(x, y);
        loss.backward();
        return loss;
      };
      try {
        dp.step(closure);
      } catch (...) {
        cluster.endpoint.reset();  // this worker leaves
        throw;
      }
    });
    EXPECT_EQ(errors[1], "no such batch");
    EXPECT_NE(errors[0].find("rank 1"), std::string::npos) << errors[0];
  }
}

/// By rank, after steps between which, where asked for, some fail on rank 1 when all buckets are under way or averaged.
std::vector<std::vector<double>> weights_with_failures(std::string_view codec, bool overlap, bool fails) {
  std::vector<std::vector<double>> weights(2);
  const auto errors = on_ranks(2, [&](transport::Cluster& cluster) {
    const int rank = cluster.endpoint->rank();
    const auto net = std::make_shared<Net>();
    auto optimiser = optimiser_of(*net);
    ParallelOptions options;
    options.codec.name = codec;
    options.overlap = overlap;
    options.bucket_mb = 0.0005;
    auto dp = parallel(net, optimiser, cluster, options);
    for (int step = 0; step < all_steps; ++step) {
      const auto [x, y] = samples(step, rank * all_samples / 2, (rank + 1) * all_samples / 2);
      const auto closure = [&, x = x, y = y](bool failing) {
        const auto loss = net->loss(x, y);
        loss.backward();
        if (failing && rank == 1) throw std::runtime_error("no such metric");
        return loss;
      };
      if (fails && step % 3 == 1) {
        EXPECT_ANY_THROW(dp.step([&] { return closure(true); })) << "rank " << rank;
      }
      dp.step([&] { return closure(false); });
    }
    weights[static_cast<std::size_t>(rank)] = numbers(*net);
    dp.sum(0);
  });
  EXPECT_EQ(errors, std::vector<std::string>(2)) << codec << " " << overlap;
  return weights;
}

TEST(Parallel, AStepThatFailsLeavesNothingBehind) {
  for (const std::string_view codec : {"int8", "qsgd", "powersgd"}) {
    for (const bool overlap : {false, true}) {
      const auto whole = weights_with_failures(codec, overlap, false),
                 failed = weights_with_failures(codec, overlap, true);
      EXPECT_EQ(whole, failed) << codec << " " << overlap;
      EXPECT_EQ(failed[0], failed[1]) << codec << " " << overlap;
    }
  }
}

TEST(Parallel, OptionsThatCannotBeAreRefused) {
  const auto error_of = [](ParallelOptions options) {
    return on_ranks(1, [&](transport::Cluster& cluster) {
      const auto net = std::make_shared<Net>();
      auto optimiser = optimiser_of(*net);
      parallel(net, optimiser, cluster, options);
    })[0];
  };
  EXPECT_EQ(error_of({}), "");
  ParallelOptions options;
  options.local_steps = 0;
  EXPECT_NE(error_of(options).find("local_steps is 0"), std::string::npos);
  options.local_steps = 2;
  options.codec.name = "int8";
  EXPECT_NE(error_of(options).find("take fp16 or bf16"), std::string::npos);
  options = {};
  options.bucket_mb = 0;
  EXPECT_NE(error_of(options).find("bucket_mb is 0"), std::string::npos);
  options = {};
  options.route = "halving-doubling";
  options.codec.name = "topk";
  EXPECT_NE(error_of(options).find("topk"), std::string::npos);
}

}  // namespace
}  // namespace ripieno::train
