// ddp_script.py in C++: the same nets and steps with ripieno::DistributedDataParallel. Rank 0 prints JSON: the median
// seconds of a step, and of one without the exchange (NoSync), which takes turns with it.
//
//   ripieno launch -n 2 -- ddp_step loop mlp 30 sgd     (or fused: LibTorch's SGD that passes over memory once)
//
// With other arguments it is `ripieno` with that net in its zoo: the program's own learner on the same net.
//
//   ddp_step train --set model=mlp ...
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "apps/ripieno/program.h"
#include "ripieno/loop/distributed_data_parallel.h"
#include "ripieno/model/classifier.h"

namespace {

struct Mlp : ripieno::model::Classifier {
  Mlp() {
    first = register_module("first", torch::nn::Linear(784, 2048));
    second = register_module("second", torch::nn::Linear(2048, 2048));
    third = register_module("third", torch::nn::Linear(2048, 10));
  }
  torch::Tensor forward(torch::Tensor images) override {
    return third(torch::relu(second(torch::relu(first(images.flatten(1))))));
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr};
};

ripieno::model::Zoo nets() {
  ripieno::model::Zoo zoo = ripieno::model::zoo();
  zoo.add({"mlp", "three linear layers", 1, 28, 28, 10, 5824522, [] { return std::make_shared<Mlp>(); }});
  return zoo;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double seconds_of(const std::function<void()>& act) {
  const auto begin = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void barrier(const ripieno::ProcessGroup& group) { group->barrier()->wait(); }

/// torch::optim::SGD with momentum, or the kernel of torch.optim.SGD(fused=True), which C++ has as a function alone.
std::function<void()> make_sgd(const std::vector<torch::Tensor>& parameters, double rate, bool fused) {
  const double momentum = 0.9;
  if (!fused) {
    const auto sgd = std::make_shared<torch::optim::SGD>(parameters, torch::optim::SGDOptions(rate).momentum(momentum));
    return [sgd] { sgd->step(); };
  }
  std::vector<torch::Tensor> buffers;
  for (const torch::Tensor& parameter : parameters) buffers.push_back(torch::zeros_like(parameter));
  return [parameters, buffers, rate, momentum, is_first = true]() mutable {
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> gradients;
    for (const torch::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
    at::_fused_sgd_(parameters, gradients, buffers, 0, momentum, rate, 0, false, false, is_first);
    is_first = false;
  };
}

void own_loop(const ripieno::model::ModelInfo& model, int steps, bool fused) {
  const int warmup = 4, batch = 64;
  torch::set_num_threads(1);
  const auto group = ripieno::init_process_group();
  torch::manual_seed(1);
  const auto net = model.make();
  ripieno::DistributedDataParallel ddp(net, group);
  const auto optimise = make_sgd(net->parameters(), 0.01, fused),
             idle = make_sgd(net->parameters(), 0, fused);  // as long, and without an effect
  torch::manual_seed(2 + ddp.rank());
  const auto images = torch::randn({batch, model.channels, model.height, model.width}),
             labels = torch::randint(0, 10, {batch});
  const auto backward = [&] {
    const torch::Tensor loss = torch::nn::functional::cross_entropy(net->forward(images), labels);
    net->zero_grad();
    loss.backward();
  };
  std::vector<double> whole, alone;
  for (int i = -warmup; i < steps; ++i) {
    barrier(group);
    const double with_exchange = seconds_of([&] {
      backward();
      optimise();
    });
    barrier(group);
    const double without = seconds_of([&] {
      const ripieno::NoSync no_sync(ddp);
      backward();
      idle();
    });
    if (i < 0) continue;
    whole.push_back(with_exchange);
    alone.push_back(without);
  }
  barrier(group);
  if (ddp.rank() == 0) std::printf("{\"step\": %.6f, \"alone\": %.6f}\n", median(whole), median(alone));
}

}  // namespace

int main(int argc, char** argv) {
  const ripieno::model::Zoo zoo = nets();
  if (argc < 2 || std::strcmp(argv[1], "loop") != 0) return ripieno::program::run_program(argc, argv, zoo);
  if (argc != 5) return 2;
  own_loop(zoo.find(argv[2]), std::atoi(argv[3]), std::strcmp(argv[4], "fused") == 0);
  return 0;
}
