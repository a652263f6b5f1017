// A checkpoint: read, copied into a model, and walked as a strategy's state.
#include "ripieno/train/checkpoint.h"

#include "tests/fuzz/fuzz.h"

/// LibTorch leaves its reader behind where that throws.
extern "C" const char* __lsan_default_suppressions() { return "leak:libtorch_cpu.so"; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ripieno;
  const fuzz::MemoryFile file(fuzz::as_text(data, size));
  fuzz::take_or_refuse([&] { train::load_first_numbers(file.path(), 2); });
  fuzz::take_or_refuse([&] {
    const train::NamedTensors tensors = train::load_tensors(file.path());
    torch::nn::Linear linear(3, 2);
    fuzz::take_or_refuse([&] { train::load_state_dict(*linear, tensors, file.path()); });
    std::vector<float> numbers(6);
    std::int64_t number = 0;
    for (const auto& [name, tensor] : tensors) {
      train::StateReader state(tensors, file.path());
      fuzz::take_or_refuse([&, &name = name] { state.span(name, NumberSpan(numbers)); });
      fuzz::take_or_refuse([&, &name = name] { state.number(name, number); });
    }
  });
  return 0;
}
