// A training program as users write it, on any number of workers: own net with batch norm, two parameter groups,
// gradient accumulation, clipping, a schedule, evaluation, checkpoints and resuming.
//
//   ripieno launch -n 2 -- ./cifar10_ddp FOLDER [EPOCHS [CHECKPOINT]]     (or torchrun --no-python, mpirun, srun)
//
// FOLDER holds CIFAR-10's data_batch_1.bin .. test_batch.bin; with "generated" images are made up.
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "ripieno/loop/distributed_data_parallel.h"

namespace {

struct Images {
  torch::Tensor pixels, labels;
};

Images generated(std::int64_t count) {
  const auto labels = torch::randint(0, 10, {count});
  const auto patterns = torch::sin(torch::arange(10 * 3 * 32 * 32) * 0.37).view({10, 3, 32, 32});
  return {patterns.index_select(0, labels) + 0.7 * torch::randn({count, 3, 32, 32}), labels};
}

Images read(const std::string& folder, const std::vector<std::string>& names) {
  std::vector<torch::Tensor> pixels, labels;
  for (const std::string& name : names) {
    std::ifstream file(folder + "/" + name, std::ios::binary);
    auto bytes = torch::empty({10000, 3073}, torch::kUInt8);
    if (!file.read(static_cast<char*>(bytes.data_ptr()), bytes.numel()))
      throw std::runtime_error("cannot read 10000 images from " + folder + "/" + name);
    labels.push_back(bytes.select(1, 0).to(torch::kLong));
    pixels.push_back(bytes.narrow(1, 1, 3072).reshape({-1, 3, 32, 32}).to(torch::kFloat32).div_(127.5).sub_(1));
  }
  return {torch::cat(pixels), torch::cat(labels)};
}

struct NetImpl : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(norm1(conv1(x))), 2);
    x = torch::max_pool2d(torch::relu(norm2(conv2(x))), 2);
    return head(torch::max_pool2d(torch::relu(norm3(conv3(x))), 2).flatten(1));
  }
  torch::nn::Conv2d conv(const char* name, int in, int out) {
    return register_module(name, torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1).bias(false)));
  }
  torch::nn::BatchNorm2d norm(const char* name, int channels) {
    return register_module(name, torch::nn::BatchNorm2d(channels));
  }
  torch::nn::Conv2d conv1 = conv("conv1", 3, 16), conv2 = conv("conv2", 16, 32), conv3 = conv("conv3", 32, 64);
  torch::nn::BatchNorm2d norm1 = norm("norm1", 16), norm2 = norm("norm2", 32), norm3 = norm("norm3", 64);
  torch::nn::Linear head = register_module("head", torch::nn::Linear(64 * 4 * 4, 10));
};
TORCH_MODULE(Net);

constexpr int batch = 32, accumulated = 2;  // samples of a worker in a pass, passes of a step
constexpr double top_rate = 0.05;

/// Weights of convolutions and of the head decay; biases and batch norm's parameters do not.
torch::optim::SGD optimiser_for(Net net) {
  std::vector<torch::Tensor> decayed, others;
  for (const torch::Tensor& parameter : net->parameters())
    (parameter.dim() > 1 ? decayed : others).push_back(parameter);
  const auto options = [](double decay) {
    return std::make_unique<torch::optim::SGDOptions>(
        torch::optim::SGDOptions(top_rate).momentum(0.9).nesterov(true).weight_decay(decay));
  };
  return torch::optim::SGD({{decayed, options(5e-4)}, {others, options(0)}}, *options(0));
}

void set_rate(torch::optim::SGD& optimiser, double part) {  // of training: up for a tenth, then a cosine
  const double rate = top_rate * (part < 0.1 ? part / 0.1 : (1 + std::cos(M_PI * (part - 0.1) / 0.9)) / 2);
  for (auto& group : optimiser.param_groups()) static_cast<torch::optim::SGDOptions&>(group.options()).lr(rate);
}

double accuracy(Net net, const Images& test, const ripieno::DistributedDataParallel& ddp) {
  const torch::NoGradGuard no_grad;
  net->eval();
  const auto mine = torch::arange(ddp.rank(), test.labels.size(0), ddp.world_size());
  auto correct = torch::zeros({}, torch::kFloat64);
  for (const auto& part : mine.split(500))
    correct += net->forward(test.pixels.index_select(0, part)).argmax(1).eq(test.labels.index_select(0, part)).sum();
  net->train();
  return ddp.mean(correct).item<double>() * ddp.world_size() / static_cast<double>(test.labels.size(0));
}

void train(const std::string& folder, int epochs, const std::string& checkpoint) {
  const auto group = ripieno::init_process_group({.timeout = std::chrono::minutes(5)});
  torch::set_num_threads(1);
  torch::manual_seed(0);  // the same images and weights everywhere
  const bool made_up = folder == "generated";
  const Images all = made_up ? generated(2048)
                             : read(folder, {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                             "data_batch_4.bin", "data_batch_5.bin"});
  const Images test = made_up ? generated(512) : read(folder, {"test_batch.bin"});

  Net net;
  torch::optim::SGD optimiser = optimiser_for(net);
  int first = 0;
  if (!checkpoint.empty() && std::filesystem::exists(checkpoint)) {
    torch::serialize::InputArchive archive;
    archive.load_from(checkpoint);
    net->load(archive);
    optimiser.load(archive);
    c10::IValue epoch;
    archive.read("epoch", epoch);
    first = static_cast<int>(epoch.toInt());
  }
  ripieno::DistributedDataParallel ddp(net, group);

  const std::int64_t steps = all.labels.size(0) / (batch * accumulated * ddp.world_size());
  for (int epoch = first; epoch < epochs; ++epoch) {
    torch::manual_seed(epoch);  // every worker shuffles alike, and takes its part
    const auto order = torch::randperm(all.labels.size(0));
    double loss_sum = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
      optimiser.zero_grad();
      for (int pass = 0; pass < accumulated; ++pass) {
        const std::optional<ripieno::NoSync> no_sync =
            pass + 1 < accumulated ? std::optional<ripieno::NoSync>(std::in_place, ddp) : std::nullopt;
        const auto mine = order.narrow(0, ((step * accumulated + pass) * ddp.world_size() + ddp.rank()) * batch, batch);
        const auto output = net->forward(all.pixels.index_select(0, mine));
        const auto loss = torch::nn::functional::cross_entropy(output, all.labels.index_select(0, mine)) / accumulated;
        loss.backward();
        loss_sum += loss.item<double>();
      }
      torch::nn::utils::clip_grad_norm_(net->parameters(), 5.0);
      set_rate(optimiser, (epoch + static_cast<double>(step) / steps) / epochs);
      optimiser.step();
    }
    const double loss = ddp.mean(torch::tensor(loss_sum / steps, torch::kFloat64)).item<double>();
    const double score = accuracy(net, test, ddp);
    if (ddp.rank() == 0) {
      std::printf("epoch %d: loss %.4f, accuracy %.4f\n", epoch + 1, loss, score);
      if (!checkpoint.empty()) {
        torch::serialize::OutputArchive archive;
        net->save(archive);
        optimiser.save(archive);
        archive.write("epoch", c10::IValue(epoch + 1));
        archive.save_to(checkpoint + ".new");
        std::filesystem::rename(checkpoint + ".new", checkpoint);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fputs("usage: cifar10_ddp FOLDER|generated [EPOCHS [CHECKPOINT]]\n", stderr), 2;
  try {
    train(argv[1], argc > 2 ? std::atoi(argv[2]) : 3, argc > 3 ? argv[3] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cifar10_ddp: %s\n", error.what());
    return 1;
  }
  return 0;
}
