// Your own net, optimiser and loop on several workers:  ripieno launch -n 2 -- ./own_loop
//
// Each worker draws its own points of a spiral with two arms; together they learn to tell the arms apart.
#include <torch/torch.h>

#include <cstdio>

#include "ripieno/loop/distributed_data_parallel.h"

namespace {

std::pair<torch::Tensor, torch::Tensor> spiral(int points) {
  const auto arm = torch::randint(0, 2, {points});
  const auto t = torch::rand({points}).sqrt() * 6 + 0.5;
  const auto angle = t + arm * M_PI;
  const auto noise = 0.05 * torch::randn({points, 2});
  return {torch::stack({t * angle.cos(), t * angle.sin()}, 1) / 4 + noise, arm};
}

}  // namespace

int main() {
  const auto group = ripieno::init_process_group();  // alone, if nobody launched us

  torch::manual_seed(0);
  torch::set_num_threads(1);
  torch::nn::Sequential net(torch::nn::Linear(2, 64), torch::nn::ReLU(), torch::nn::Linear(64, 64), torch::nn::ReLU(),
                            torch::nn::Linear(64, 2));
  torch::optim::Adam optimiser(net->parameters(), 1e-2);
  ripieno::DistributedDataParallel ddp(net, group);

  torch::manual_seed(1 + ddp.rank());  // other points for every worker
  for (int step = 0; step < 300; ++step) {
    const auto [points, arms] = spiral(128);
    optimiser.zero_grad();
    torch::nn::functional::cross_entropy(net->forward(points), arms).backward();  // averages the gradients
    optimiser.step();
  }

  const auto [points, arms] = spiral(1000);
  const auto right = ddp.mean(net->forward(points).argmax(1).eq(arms).to(torch::kFloat64).mean());
  const auto checksum = net->parameters()[0].detach().to(torch::kFloat64).sum();
  const bool agree = ddp.mean(checksum).item<double>() == checksum.item<double>();  // every worker has the same weights
  if (ddp.rank() == 0) {
    std::printf("%d workers, %.1f %% right, %s, %.1f MB sent by rank 0\n", ddp.world_size(), 100 * right.item<double>(),
                agree ? "all agree" : "they differ", group->ledger().total().payload_sent / 1e6);
  }
  return agree ? 0 : 1;
}
