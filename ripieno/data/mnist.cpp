#include "ripieno/data/mnist.h"

#include <array>
#include <iomanip>
#include <string>

#include "ripieno/core/file.h"
#include "ripieno/data/gunzip.h"
#include "ripieno/data/locate.h"

namespace ripieno::data {
namespace {

constexpr int mnist_classes = 10;

std::string hex(std::uint32_t value) {
  std::ostringstream out;
  out << "0x" << std::hex << std::setfill('0') << std::setw(8) << value;
  return out.str();
}

/// An open IDX file of `count` items of `item` bytes each, whose header has been checked.
class IdxFile {
 public:
  /// `dimensions` are those of an item: none for a label, rows and columns for an image.
  IdxFile(Unpacked source, const char* what, std::span<const std::uint32_t> dimensions)
      : file_(std::move(source.path)), unpacking_(source.bytes_read), header_(8 + 4 * dimensions.size()) {
    std::array<std::byte, 16> header;
    file_.read(0, Bytes(header).first(header_));
    const auto number = [&](std::size_t offset) {
      std::uint32_t value = 0;
      for (std::size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(header[offset + i]);
      return value;
    };
    const std::uint32_t magic = 0x0801 + static_cast<std::uint32_t>(dimensions.size());
    if (number(0) != magic) {
      const std::string kind = kind_of(first_bytes(file_.path()));
      fail(ErrorKind::data, name(), ": the magic number at offset 0 is ", hex(number(0)), " where an IDX file of ",
           what, " has ", hex(magic), "; it is ",
           kind.empty() ? "another kind of file, or corrupt" : kind + ", fetch it again");
    }
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      const std::size_t offset = 8 + 4 * i;
      if (number(offset) != dimensions[i]) {
        fail(ErrorKind::data, name(), ": the ", i == 0 ? "rows" : "columns", " at offset ", offset, " are ",
             number(offset), " where MNIST has ", dimensions[i]);
      }
      item_ *= dimensions[i];
    }
    count_ = number(4);
    if (count_ == 0)
      fail(ErrorKind::data, name(), ": the count at offset 4 is 0 where at least 1 of ", what, " is needed");
    // Fits 64 bits: a count below 2^32, items below 2^10 bytes.
    const std::uint64_t expected = header_ + std::uint64_t{count_} * item_;
    if (file_.size() != expected) {
      fail(ErrorKind::data, name(), ": the count at offset 4 is ", count_, " ", what, ", which take ", expected,
           " bytes, and the file has ", file_.size(), "; it is ",
           file_.size() < expected ? "truncated or corrupt" : "corrupt", ", fetch it again");
    }
  }

  std::uint32_t count() const { return count_; }
  std::string name() const { return file_.path().string(); }
  std::uint64_t offset(std::uint32_t index) const { return header_ + std::uint64_t{index} * item_; }
  void read(std::uint32_t index, Bytes item) { file_.read(offset(index), item); }
  std::uint64_t bytes_read() const { return unpacking_ + file_.bytes_read(); }

 private:
  RandomAccessFile file_;
  std::uint64_t unpacking_;
  std::size_t header_;
  std::uint32_t item_ = 1;
  std::uint32_t count_ = 0;
};

class Mnist final : public Dataset {
 public:
  Mnist(IdxFile images, IdxFile labels, Split split, const DataOptions& options)
      : images_(std::move(images)), labels_(std::move(labels)) {
    if (images_.count() != labels_.count()) {
      fail(ErrorKind::data, images_.name(), ": has ", images_.count(), " images, and ", labels_.name(), " has ",
           labels_.count(), " labels; the files do not belong together");
    }
    size_ = limit_samples("mnist", split, options, images_.count());
  }

  ImageShape shape() const override { return mnist_shape; }
  int classes() const override { return mnist_classes; }
  std::uint32_t size() const override { return size_; }
  std::uint64_t bytes_read() const override { return images_.bytes_read() + labels_.bytes_read(); }

  int read(std::uint32_t index, std::span<std::uint8_t> pixels) override {
    require_sample(index, pixels);
    const int value = label(index);
    images_.read(index, std::as_writable_bytes(pixels));
    return value;
  }

  int label(std::uint32_t index) override {
    std::byte label;
    labels_.read(index, {&label, 1});
    const int value = std::to_integer<int>(label);
    if (value >= mnist_classes) {
      fail(ErrorKind::data, labels_.name(), ": the label at offset ", labels_.offset(index), " is ", value,
           " where 0 to ", mnist_classes - 1, " are known; the file is corrupt, or of another data set");
    }
    return value;
  }

 private:
  IdxFile images_, labels_;
  std::uint32_t size_ = 0;
};

/// E.g. train-images-idx3-ubyte; some copies have a dot for the second dash.
Unpacked find_plain(const std::string& split, const std::string& items, const std::string& idx,
                    const DataOptions& options) {
  const std::string stem = split + "-" + items;
  return plain_file(
      locate({"mnist",
              {options.folder, options.folder / "mnist", options.folder / "MNIST" / "raw"},
              {stem + "-" + idx + "-ubyte", stem + "." + idx + "-ubyte"},
              {split, items},
              "set the data folder to one that holds MNIST's four IDX files, or use the generated set \"digits\""}),
      options.cache);
}

}  // namespace

std::unique_ptr<Dataset> open_mnist(Split split, const DataOptions& options) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const std::uint32_t dimensions[] = {28, 28};
  IdxFile images(find_plain(prefix, "images", "idx3", options), "images", dimensions);
  IdxFile labels(find_plain(prefix, "labels", "idx1", options), "labels", {});
  return std::make_unique<Mnist>(std::move(images), std::move(labels), split, options);
}

}  // namespace ripieno::data
