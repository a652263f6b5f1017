// Every codec (codec/codec.h): numbers encoded, and decoded onto others, a second.
#include <benchmark/benchmark.h>

#include <cmath>

#include "ripieno/codec/codec.h"

namespace ripieno {
namespace {

constexpr std::size_t elements = 1 << 20;

/// As gradients are: most are small, a few are not.
std::vector<float> gradients() {
  Random random(1, 1);
  std::vector<float> numbers(elements);
  for (float& number : numbers) number = static_cast<float>(std::pow(random.uniform(-1, 1), 5) * 1e-3);
  return numbers;
}

void encode(benchmark::State& state, std::string name) {
  const auto codec = codec::make_codec({.name = name}, DType::fp32);
  auto numbers = gradients();
  Random random(1, 2);
  ByteVector bytes;
  for (auto _ : state) {
    codec->encode(numbers, random, bytes);
    benchmark::DoNotOptimize(bytes.data());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(elements) * state.iterations());
  state.counters["bytes/number"] = static_cast<double>(bytes.size()) / elements;
}

void decode(benchmark::State& state, std::string name) {
  const auto codec = codec::make_codec({.name = name}, DType::fp32);
  auto numbers = gradients();
  Random random(1, 2);
  ByteVector bytes;
  codec->encode(numbers, random, bytes);
  for (auto _ : state) {
    codec->add(bytes, numbers);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(elements) * state.iterations());
}

const bool registered = [] {
  for (const codec::CodecInfo& info : codec::codecs()) {
    if (info.kind == codec::CodecKind::low_rank) continue;  // no bytes of its own (collective/powersgd.h)
    const std::string name(info.name);
    benchmark::RegisterBenchmark(("encode/" + name).c_str(), encode, name);
    benchmark::RegisterBenchmark(("decode/" + name).c_str(), decode, name);
  }
  return true;
}();

}  // namespace
}  // namespace ripieno
