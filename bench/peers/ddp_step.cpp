// ddp_script.py mlp in C++: the same net and steps with ripieno::DistributedDataParallel. Rank 0 prints JSON: the
// median seconds of a step, and of one without the exchange (NoSync), which takes turns with it.
//
//   ripieno launch -n 2 -- ddp_step 30
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "ripieno/loop/distributed_data_parallel.h"

namespace {

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

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const int steps = std::atoi(argv[1]), warmup = 4, batch = 64;
  torch::set_num_threads(1);
  const auto group = ripieno::init_process_group();
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Flatten(), torch::nn::Linear(784, 2048), torch::nn::ReLU(),
                            torch::nn::Linear(2048, 2048), torch::nn::ReLU(), torch::nn::Linear(2048, 10));
  ripieno::DistributedDataParallel ddp(net, group);
  torch::optim::SGD optimiser(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9)),
      idle(net->parameters(), torch::optim::SGDOptions(0).momentum(0.9));  // as long, and without an effect
  torch::manual_seed(2 + ddp.rank());
  const auto images = torch::randn({batch, 1, 28, 28}), labels = torch::randint(0, 10, {batch});
  const auto backward = [&] {
    const torch::Tensor loss = torch::nn::functional::cross_entropy(net->forward(images), labels);
    optimiser.zero_grad();
    loss.backward();
  };
  std::vector<double> whole, alone;
  for (int i = -warmup; i < steps; ++i) {
    barrier(group);
    const double with_exchange = seconds_of([&] {
      backward();
      optimiser.step();
    });
    barrier(group);
    const double without = seconds_of([&] {
      const ripieno::NoSync no_sync(ddp);
      backward();
      idle.step();
    });
    if (i < 0) continue;
    whole.push_back(with_exchange);
    alone.push_back(without);
  }
  barrier(group);
  if (ddp.rank() == 0) std::printf("{\"step\": %.6f, \"alone\": %.6f}\n", median(whole), median(alone));
  return 0;
}
