// A sample of the sampler (observe/usage_sampler.h): what it takes of the runtime's thread. At ten a second, 1 ms would
// be 1 %.
#include <benchmark/benchmark.h>

#include <filesystem>

#include "ripieno/core/file.h"
#include "ripieno/observe/usage_sampler.h"

namespace ripieno {
namespace {

void sample(benchmark::State& state) {
  const auto file = std::filesystem::temp_directory_path() / "ripieno_sampler_bench.jsonl";
  const auto runtime = real_runtime(0);
  observe::Recorder recorder(*runtime, nullptr, std::make_unique<LineFile>(file));
  for (auto _ : state)
    observe::UsageSampler(*runtime, recorder, std::chrono::hours(1));  // one for its beginning, one at its end
  state.SetItemsProcessed(2 * state.iterations());
  std::filesystem::remove(file);
}
BENCHMARK(sample)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ripieno
