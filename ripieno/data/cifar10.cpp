#include "ripieno/data/cifar10.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "ripieno/core/file.h"
#include "ripieno/data/gunzip.h"
#include "ripieno/data/locate.h"

namespace ripieno::data {
namespace {

constexpr int cifar10_classes = 10;
constexpr std::uint64_t record = 3073;

/// Advice if a file is missing: the archive may be there, or the Python version.
std::string advice(const std::vector<std::filesystem::path>& folders) {
  const std::string archive = "cifar-10-binary.tar.gz";
  for (const auto& folder : folders) {
    std::error_code error;
    if (std::filesystem::exists(folder / archive, error))
      return text("unpack ", (folder / archive).string(), " there with tar -xf");
    for (const char* other : {"cifar-10-python.tar.gz", "cifar-10-batches-py"}) {
      if (!std::filesystem::exists(folder / other, error)) continue;
      return text((folder / other).string(), " is the version for Python; fetch the binary version, ", archive);
    }
  }
  return "set the data folder to one that holds CIFAR-10's binary version";
}

Unpacked find(const std::string& file, const DataOptions& options) {
  const std::vector<std::filesystem::path> folders{options.folder, options.folder / "cifar-10-batches-bin"};
  const std::string word = file.substr(0, file.find('.'));
  const std::string or_else = ", or use the generated set \"shapes\"";
  return plain_file(locate({"cifar10", folders, {file}, {word}, advice(folders) + or_else}), options.cache);
}

class Cifar10 final : public Dataset {
 public:
  Cifar10(const std::vector<Unpacked>& files, Split split, const DataOptions& options) {
    for (const Unpacked& file : files) {
      files_.emplace_back(file.path);
      unpacking_ += file.bytes_read;
    }
    std::uint64_t samples = 0;
    for (const RandomAccessFile& file : files_) {
      if (file.size() == 0 || file.size() % record != 0) {
        const std::string kind = kind_of(first_bytes(file.path()));
        fail(ErrorKind::data, file.path().string(), ": has ", file.size(), " bytes, ", file.size() % record,
             " more than a whole number of records of ", record, " bytes",
             file.size() < record ? " (and at least one is needed)" : "", "; it is ",
             kind.empty() ? "truncated or no file of CIFAR-10's binary version" : kind, ", fetch it again");
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
    std::uint64_t sum = unpacking_;
    for (const RandomAccessFile& file : files_) sum += file.bytes_read();
    return sum;
  }

  int read(std::uint32_t index, std::span<std::uint8_t> pixels) override {
    require_sample(index, pixels);
    std::array<std::uint8_t, record> bytes;
    const int label = read_record(index, bytes);
    std::copy(bytes.begin() + 1, bytes.end(), pixels.begin());
    return label;
  }

  int label(std::uint32_t index) override {
    std::uint8_t byte = 0;
    return read_record(index, std::span(&byte, 1));
  }

 private:
  /// The beginning of a record, as much as there is room for; returns the label.
  int read_record(std::uint32_t index, std::span<std::uint8_t> bytes) {
    const auto which = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    const std::uint64_t offset = record * (index - (which == 0 ? 0 : ends_[which - 1]));
    files_[which].read(offset, std::as_writable_bytes(bytes));
    const int label = bytes[0];
    if (label >= cifar10_classes) {
      fail(ErrorKind::data, files_[which].path().string(), ": the label at offset ", offset, " is ", label,
           " where 0 to ", cifar10_classes - 1, " are known; the file is corrupt, or of another data set");
    }
    return label;
  }

  std::vector<RandomAccessFile> files_;
  std::vector<std::uint32_t> ends_;  // the number of samples up to the end of each file
  std::uint64_t unpacking_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> open_cifar10(Split split, const DataOptions& options) {
  std::vector<Unpacked> files;
  if (split == Split::test) {
    files.push_back(find("test_batch.bin", options));
  } else {
    for (int i = 1; i <= 5; ++i) files.push_back(find(text("data_batch_", i, ".bin"), options));
  }
  return std::make_unique<Cifar10>(files, split, options);
}

}  // namespace ripieno::data
