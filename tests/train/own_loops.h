// Own loops on a few workers, as users write them.
#pragma once

#include <gtest/gtest.h>

#include "ripieno/train/parallel.h"
#include "tests/train/tcp_learners.h"

namespace ripieno::testing {

using Errors = std::vector<std::string>;

/// A linear layer whose weights are the same wherever it is made. (Torch's generator is everybody's, and ranks are
/// threads.)
inline torch::nn::Linear linear(int in, int out, double factor = 1) {
  torch::nn::Linear made(in, out);
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : made->parameters()) {
    parameter.copy_(
        torch::sin(factor * torch::arange(1, parameter.numel() + 1, torch::kFloat32)).view(parameter.sizes()));
  }
  return made;
}

inline torch::Tensor batch(int rank, int step) {
  return torch::sin(torch::arange(1, 21, torch::kFloat32) * (1.3 + rank) + step).view({5, 4});
}

inline std::vector<float> weights(const torch::nn::Module& module) {
  std::vector<float> all;
  for (const torch::Tensor& parameter : module.parameters()) {
    const torch::Tensor flat = parameter.detach().contiguous().view(-1);
    all.insert(all.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  }
  return all;
}

/// One worker of a small job.
struct Worker {
  explicit Worker(transport::Cluster& cluster, const train::ParallelOptions& options = {}, double rate = 0.1)
      : cluster(cluster),
        rank(cluster.endpoint->rank()),
        model(linear(4, 3)),
        optimiser(model->parameters(), rate),
        dp(train::parallel(model, optimiser, cluster, options)) {}

  torch::Tensor loss(int step = 0) { return model(batch(rank, step)).square().mean(); }
  void step(int number = 0) {
    dp.step([&] {
      torch::Tensor value = loss(number);
      value.backward();
      return value;
    });
  }

  transport::Cluster& cluster;
  int rank;
  torch::nn::Linear model;
  torch::optim::SGD optimiser;
  train::Parallel dp;
};

inline train::ParallelOptions overlapping(bool overlap, int local_steps = 1) {
  train::ParallelOptions options;
  options.bucket_mb = 1e-5;
  options.overlap = overlap;
  options.local_steps = local_steps;
  return options;
}

inline void expect_said(const Errors& errors, const std::vector<std::string>& words, const std::string& where) {
  for (const std::string& error : errors) {
    for (const std::string& word : words) EXPECT_NE(error.find(word), std::string::npos) << where << ": " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

/// The body on two workers, which all must refuse with these words.
inline void expect_refused(const std::vector<std::string>& words, const std::string& where,
                           const std::function<void(transport::Cluster&)>& body) {
  expect_said(on_ranks(2, body), words, where);
}

}  // namespace ripieno::testing
