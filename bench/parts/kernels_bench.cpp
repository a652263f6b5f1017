// Element-wise work on flat spans (numeric/elementwise.h): bytes read and written a second, in cache and out of it.
#include <benchmark/benchmark.h>

#include "ripieno/numeric/elementwise.h"

namespace ripieno {
namespace {

constexpr std::int64_t in_cache = 64 << 10, in_memory = 16 << 20;  // elements

/// `count` numbers of a type that no kernel finds special.
struct Numbers {
  Numbers(std::int64_t count, DType type)
      : bytes(static_cast<std::size_t>(count) * size_of(type)),
        span(bytes.data(), static_cast<std::size_t>(count), type) {
    std::vector<float> values(span.count);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1024) / 1024;
    numeric::convert(span, values);
  }
  std::vector<std::byte> bytes;
  NumberSpan span;
};

/// Bytes that one run of a kernel reads and writes.
void report(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}

void add_from(benchmark::State& state, DType type) {
  const Numbers into(state.range(0), DType::fp32), from(state.range(0), type);
  for (auto _ : state) {
    numeric::add(into.span, from.span);
    benchmark::ClobberMemory();
  }
  report(state, 2 * into.bytes.size() + from.bytes.size());
}

void convert_between(benchmark::State& state, DType to, DType from_type) {
  const Numbers into(state.range(0), to), from(state.range(0), from_type);
  for (auto _ : state) {
    numeric::convert(into.span, from.span);
    benchmark::ClobberMemory();
  }
  report(state, into.bytes.size() + from.bytes.size());
}

void scale_by(benchmark::State& state) {
  const Numbers values(state.range(0), DType::fp32);
  for (auto _ : state) {
    numeric::scale(values.span, 0.9999999);
    benchmark::ClobberMemory();
  }
  report(state, 2 * values.bytes.size());
}

void round_to(benchmark::State& state, DType type) {
  const Numbers values(state.range(0), DType::fp32);
  for (auto _ : state) {
    numeric::round_through(values.span, type);
    benchmark::ClobberMemory();
  }
  report(state, 2 * values.bytes.size());
}

BENCHMARK_CAPTURE(add_from, fp32, DType::fp32)->Arg(in_cache)->Arg(in_memory);
BENCHMARK_CAPTURE(add_from, fp16, DType::fp16)->Arg(in_cache)->Arg(in_memory);
BENCHMARK_CAPTURE(add_from, bf16, DType::bf16)->Arg(in_cache)->Arg(in_memory);
BENCHMARK_CAPTURE(convert_between, fp32_to_fp16, DType::fp16, DType::fp32)->Arg(in_cache)->Arg(in_memory);
BENCHMARK_CAPTURE(convert_between, fp32_to_bf16, DType::bf16, DType::fp32)->Arg(in_cache)->Arg(in_memory);
BENCHMARK_CAPTURE(convert_between, fp16_to_fp32, DType::fp32, DType::fp16)->Arg(in_cache)->Arg(in_memory);
BENCHMARK(scale_by)->Arg(in_cache)->Arg(in_memory);
BENCHMARK_CAPTURE(round_to, fp16, DType::fp16)->Arg(in_cache)->Arg(in_memory);

}  // namespace
}  // namespace ripieno
