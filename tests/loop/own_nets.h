// Ranks of a process group as threads of the test, and nets and batches that are the same wherever they are made.
// (Torch's generator of random numbers is everybody's.)
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "ripieno/loop/distributed_data_parallel.h"

namespace ripieno::loop {

/// The first line of what `body` throws on each rank; "" where it throws nothing. What ranks do wrong ends at once, not
/// with the group's timeout.
inline std::vector<std::string> errors_on_ranks(int size, const std::function<void(ProcessGroup)>& body,
                                                std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  const auto begin = std::chrono::steady_clock::now();
  const auto store = c10::make_intrusive<::c10d::HashStore>();
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        body(init_process_group(store, rank, size, timeout));
      } catch (const std::exception& error) {
        const std::string all = error.what();
        errors[static_cast<std::size_t>(rank)] = all.substr(0, all.find('\n'));
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  return errors;
}

inline void on_ranks(int size, const std::function<void(ProcessGroup)>& body) {
  for (const std::string& error : errors_on_ranks(size, body)) EXPECT_EQ(error, "");
}

/// Numbers that look random, the same for the same seed.
inline torch::Tensor numbers(at::IntArrayRef shape, double seed, torch::ScalarType type = torch::kFloat64) {
  const torch::Tensor count = torch::arange(1, c10::multiply_integers(shape) + 1, torch::kFloat64);
  return torch::sin(count * 12.9898 + seed * 78.233).view(shape).to(type);
}

inline void fill(torch::nn::Module& net, double seed) {
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : net.parameters()) {
    parameter.copy_(0.4 * numbers(parameter.sizes(), seed, parameter.scalar_type()));
    seed += 1;
  }
}

/// Three layers, in fp64.
inline torch::nn::Sequential small_net(double seed = 1) {
  torch::nn::Sequential net(torch::nn::Linear(4, 6), torch::nn::Tanh(), torch::nn::Linear(6, 5), torch::nn::Tanh(),
                            torch::nn::Linear(5, 3));
  net->to(torch::kFloat64);
  fill(*net, seed);
  return net;
}

/// Rank `rank`'s samples of a step.
inline torch::Tensor batch(int rank, int step, torch::ScalarType type = torch::kFloat64) {
  return numbers({8, 4}, 10 * step + rank, type);
}
/// Those of all ranks.
inline torch::Tensor whole_batch(int ranks, int step, torch::ScalarType type = torch::kFloat64) {
  std::vector<torch::Tensor> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(batch(rank, step, type));
  return torch::cat(all);
}

inline torch::Tensor loss_of(const torch::Tensor& output) { return output.square().mean(); }

/// All parameters, one after the other.
inline torch::Tensor flat(const std::vector<torch::Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> all;
  for (const torch::Tensor& tensor : tensors) all.push_back(tensor.detach().to(torch::kFloat64).reshape({-1}));
  return torch::cat(all);
}
inline torch::Tensor weights(const torch::nn::Module& net) { return flat(net.parameters()); }
inline torch::Tensor gradients(const torch::nn::Module& net) {
  std::vector<torch::Tensor> all;
  for (const torch::Tensor& parameter : net.parameters())
    all.push_back(parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter));
  return flat(all);
}

inline double distance(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() ? (a - b).abs().max().item<double>() : 1e9;
}

constexpr double close = 1e-12;

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace ripieno::loop
