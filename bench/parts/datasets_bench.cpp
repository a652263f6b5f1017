// Reading a data set of MNIST's size: all of it, as each process of Wang and Yang's does (docs/reproduction.md),
// against the part that one of P workers needs in an epoch, at random places. In the page cache: what is compared is
// the reading, not the disk.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "ripieno/data/dataset.h"

namespace ripieno {
namespace {

constexpr std::uint32_t samples = 60000;

/// IDX files of 28 x 28 images and of labels, all 0.
class Files {
 public:
  Files() {
    std::filesystem::create_directories(folder);
    write("train-images-idx3-ubyte", {0, 0, 8, 3, 0, 0, samples >> 8, samples & 255, 0, 0, 0, 28, 0, 0, 0, 28}, 784);
    write("train-labels-idx1-ubyte", {0, 0, 8, 1, 0, 0, samples >> 8, samples & 255}, 1);
  }
  ~Files() { std::filesystem::remove_all(folder); }

  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "ripieno_datasets_bench";

 private:
  void write(const char* name, const std::vector<int>& header, std::size_t item) {
    std::ofstream file(folder / name, std::ios::binary);
    for (const int byte : header) file.put(static_cast<char>(byte));
    const std::vector<char> zeros(samples * item);
    file.write(zeros.data(), static_cast<std::streamsize>(zeros.size()));
  }
};

void read_dataset(benchmark::State& state) {
  const Files files;
  const auto parts = static_cast<std::uint32_t>(state.range(0));
  std::vector<std::uint32_t> order(samples);
  std::iota(order.begin(), order.end(), 0u);
  if (parts > 1) std::shuffle(order.begin(), order.end(), std::mt19937(1));
  std::array<std::uint8_t, 784> pixels;
  std::uint64_t bytes = 0;
  for (auto _ : state) {
    const auto data = data::open_dataset("mnist", data::Split::train, {.folder = files.folder});
    for (std::uint32_t i = 0; i < samples / parts; ++i) benchmark::DoNotOptimize(data->read(order[i], pixels));
    bytes = data->bytes_read();
  }
  state.counters["MB_read"] = static_cast<double>(bytes) * 1e-6;
}
BENCHMARK(read_dataset)->ArgName("parts")->Arg(1)->Arg(2)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ripieno
