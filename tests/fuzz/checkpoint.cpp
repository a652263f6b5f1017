// A checkpoint, which LibTorch reads.
#include "ripieno/train/checkpoint.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ripieno;
  const fuzz::MemoryFile file(fuzz::as_text(data, size));
  fuzz::take_or_refuse([&] { load_tensors(file.path()); });
  fuzz::take_or_refuse([&] { load_first_number(file.path()); });
  return 0;
}
