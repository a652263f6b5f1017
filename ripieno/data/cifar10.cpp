#include "ripieno/data/cifar10.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "ripieno/core/file.h"
#include "ripieno/data/locate.h"

namespace ripieno {
namespace {

constexpr int cifar10_classes = 10;
constexpr std::uint64_t record = 3073;

std::filesystem::path find(const std::string& file, const DataOptions& options) {
  const std::filesystem::path folders[] = {options.folder, options.folder / "cifar-10-batches-bin"};
  if (const auto found = locate(folders, file)) return *found;
  const auto archive = locate(folders, "cifar-10-binary.tar.gz");
  fail(ErrorKind::data, "cifar10: there is no ", file, " in ", list(folders), "; ",
       archive ? text("unpack ", archive->string(), " there with tar -xf")
               : "set the data folder to one that holds CIFAR-10's binary version",
       ", or use the generated set \"shapes\"");
}

class Cifar10 final : public Dataset {
 public:
  Cifar10(std::vector<RandomAccessFile> files, Split split, const DataOptions& options) : files_(std::move(files)) {
    std::uint64_t samples = 0;
    for (const RandomAccessFile& file : files_) {
      if (file.size() == 0 || file.size() % record != 0) {
        fail(ErrorKind::data, file.path().string(), ": has ", file.size(), " bytes, ", file.size() % record,
             " more than a whole number of records of ", record, " bytes",
             file.size() < record ? " (and at least one is needed)" : "",
             "; it is truncated or no file of CIFAR-10's binary version, fetch it again");
      }
      samples += file.size() / record;
      if (samples > std::numeric_limits<std::uint32_t>::max()) {
        fail(ErrorKind::data, file.path().string(), ": makes ", samples, " samples where fewer than 2^32 can be read");
      }
      ends_.push_back(static_cast<std::uint32_t>(samples));
    }
    size_ = limit_samples("cifar10", split, options, ends_.back());
  }

  ImageShape shape() const override { return cifar10_shape; }
  int classes() const override { return cifar10_classes; }
  std::uint32_t size() const override { return size_; }
  std::uint64_t bytes_read() const override {
    std::uint64_t sum = 0;
    for (const RandomAccessFile& file : files_) sum += file.bytes_read();
    return sum;
  }

  int read(std::uint32_t index, std::span<std::uint8_t> pixels) override {
    require_sample(index, pixels);
    const auto which = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    const std::uint64_t offset = record * (index - (which == 0 ? 0 : ends_[which - 1]));
    std::array<std::uint8_t, record> bytes;
    files_[which].read(offset, std::as_writable_bytes(std::span(bytes)));
    const int label = bytes[0];
    if (label >= cifar10_classes) {
      fail(ErrorKind::data, files_[which].path().string(), ": the label at offset ", offset, " is ", label,
           " where 0 to ", cifar10_classes - 1, " are known; the file is corrupt, or of another data set");
    }
    std::copy(bytes.begin() + 1, bytes.end(), pixels.begin());
    return label;
  }

 private:
  std::vector<RandomAccessFile> files_;
  std::vector<std::uint32_t> ends_;  // samples up to the end of each file
  std::uint32_t size_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> open_cifar10(Split split, const DataOptions& options) {
  std::vector<RandomAccessFile> files;
  if (split == Split::test) {
    files.emplace_back(find("test_batch.bin", options));
  } else {
    for (int i = 1; i <= 5; ++i) files.emplace_back(find(text("data_batch_", i, ".bin"), options));
  }
  return std::make_unique<Cifar10>(std::move(files), split, options);
}

}  // namespace ripieno
