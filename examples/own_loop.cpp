// Your own module, optimiser and loop on several workers:  ripieno launch -n 2 -- ./own_loop
//
// Each worker draws its own points of a spiral with two arms; together they learn to tell the arms apart.
#include <torch/torch.h>

#include <cstdio>

#include "ripieno/launch/join.h"
#include "ripieno/train/parallel.h"

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
  auto workers = ripieno::join();  // alone, if nobody launched us

  torch::manual_seed(0);
  torch::set_num_threads(1);
  torch::nn::Sequential model(torch::nn::Linear(2, 64), torch::nn::ReLU(), torch::nn::Linear(64, 64), torch::nn::ReLU(),
                              torch::nn::Linear(64, 2));
  torch::optim::Adam optimiser(model->parameters(), 1e-2);
  auto dp = ripieno::parallel(model, optimiser, workers, {.route = "halving-doubling"});

  torch::manual_seed(1 + dp.rank());  // other points for every worker
  for (int step = 0; step < 300; ++step) {
    const auto [points, arms] = spiral(128);
    dp.step([&, points = points, arms = arms] {
      auto loss = torch::nn::functional::cross_entropy(model->forward(points), arms);
      loss.backward();
      return loss;
    });
  }

  const auto [points, arms] = spiral(1000);
  const double correct = dp.sum(model->forward(points).argmax(1).eq(arms).sum().item<double>());
  const double checksum = model->parameters()[0].sum().item<double>();
  const bool agree = dp.sum(checksum) == dp.workers() * checksum;  // every worker has the same weights
  if (dp.rank() == 0) {
    std::printf("%d workers, %.1f %% right, %s, %.1f MB sent by rank 0\n", dp.workers(),
                100 * correct / (1000.0 * dp.workers()), agree ? "all agree" : "they differ",
                dp.ledger().total().payload_sent / 1e6);
  }
  return agree ? 0 : 1;
}
