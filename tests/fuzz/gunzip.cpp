// A data file that is packed.
#include <filesystem>

#include "ripieno/data/gunzip.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ripieno;
  static const auto folder = std::filesystem::temp_directory_path() / text("ripieno-fuzz-gunzip-", ::getpid());
  const fuzz::MemoryFile file(fuzz::as_text(data, size));
  fuzz::take_or_refuse([&] { data::unpack_gzip(file.path(), folder); });
  std::filesystem::remove_all(folder);
  return 0;
}
