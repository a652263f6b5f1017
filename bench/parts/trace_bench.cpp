// What a traced message costs the communication thread of each of its two ranks: a bar and an end of an arrow.
#include <benchmark/benchmark.h>

#include <filesystem>

#include "ripieno/observe/recorder.h"

namespace ripieno {
namespace {

void traced_message(benchmark::State& state) {
  const auto path = std::filesystem::temp_directory_path() / "ripieno_trace_bench.json";
  const auto runtime = virtual_runtime(0);
  {
    observe::Recorder recorder(*runtime, nullptr, nullptr);
    recorder.trace_to(std::make_unique<LineFile>(path), {.rank = 0, .ranks = 2});
    std::uint64_t sequence = 0;
    for (auto _ : state) {
      const Duration begin = from_seconds(1e-4 * static_cast<double>(sequence));
      recorder.message(
          {"send", 1, observe::Purpose::exchange, 3, "ring", 65536, sequence++, begin, begin + from_seconds(5e-5)});
    }
  }
  std::filesystem::remove(path);
}
BENCHMARK(traced_message);

}  // namespace
}  // namespace ripieno
