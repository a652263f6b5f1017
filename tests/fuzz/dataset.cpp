// The files of MNIST and of CIFAR-10: bytes before the first newline are the first file's, all else the second's.
#include <filesystem>
#include <fstream>
#include <vector>

#include "ripieno/data/dataset.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ripieno;

void write(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Opens what the folder holds and reads a sample of it.
void read(const char* name, const std::filesystem::path& folder) {
  fuzz::take_or_refuse([&] {
    const auto dataset = data::open_dataset(name, data::Split::test, {.folder = folder});
    std::vector<std::uint8_t> pixels(dataset->shape().pixels());
    if (dataset->size() > 0) dataset->read(dataset->size() - 1, pixels);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto folder = std::filesystem::temp_directory_path() / text("ripieno-fuzz-dataset-", ::getpid());
  std::filesystem::create_directories(folder);
  const std::string_view all = fuzz::as_text(data, size);
  const std::size_t end = std::min(all.find('\n'), all.size());
  write(folder / "t10k-labels-idx1-ubyte", all.substr(0, end));
  write(folder / "t10k-images-idx3-ubyte", all.substr(std::min(end + 1, all.size())));
  write(folder / "test_batch.bin", all);
  read("mnist", folder);
  read("cifar10", folder);
  return 0;
}
