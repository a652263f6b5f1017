// Data sets of small labelled images, as bytes: read from files sample by sample, or generated from a seed. One table
// lists them all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace ripieno::data {

struct ImageShape {
  int channels = 0, height = 0, width = 0;
  /// Values per image: channels x height x width.
  std::size_t pixels() const {
    return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  }
  bool operator==(const ImageShape&) const = default;
};

enum class Split { train, test };
/// "train", "test".
const char* name(Split split);

/// One split of a data set. Not thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual ImageShape shape() const = 0;
  virtual int classes() const = 0;
  /// The number of samples, at least one.
  virtual std::uint32_t size() const = 0;
  /// Reads one sample: shape().pixels() bytes as planes, channel x row x column; returns its label, 0 .. classes-1.
  /// Throws Error(data), with file and offset, if the file ends early or holds a label out of range.
  virtual int read(std::uint32_t index, std::span<std::uint8_t> pixels) = 0;
  /// The same for the label alone, which files give without the image.
  virtual int label(std::uint32_t index);
  /// Bytes that system calls have read from files since opening, headers included; 0 for generated sets.
  virtual std::uint64_t bytes_read() const = 0;

 protected:
  /// Asserts that the sample exists and that the buffer is an image long.
  void require_sample(std::uint32_t index, std::span<const std::uint8_t> pixels) const;
};

struct DataOptions {
  std::filesystem::path folder = {};  ///< the folder of the files; generated sets need none
  std::filesystem::path cache = {};   ///< packed files are unpacked to here, once for all workers of a machine
  std::uint64_t seed = 0;             ///< of generated sets
  std::uint32_t train_samples = 0;    ///< 0: all (generated sets: their default); else the first so many
  std::uint32_t test_samples = 0;
  /// The limit of this split.
  std::uint32_t samples(Split split) const { return split == Split::train ? train_samples : test_samples; }
};

/// Mean and standard deviation per channel, of pixels scaled to 0 .. 1. Grey images use only the first.
struct Normalisation {
  std::array<float, 3> mean = {0, 0, 0};
  std::array<float, 3> std = {1, 1, 1};
};

struct DatasetInfo {
  const char* name;   ///< as in recipes
  const char* title;  ///< for people
  ImageShape shape;
  int classes;
  std::uint32_t train, test;  ///< samples (generated sets: by default)
  bool generated;             ///< needs no files
  Normalisation normalisation;
  std::unique_ptr<Dataset> (*open)(Split, const DataOptions&);
};

/// All data sets: mnist, cifar10, digits, shapes.
std::span<const DatasetInfo> datasets();

/// Throws Error(usage), which names the nearest known name and lists all, for an unknown name.
const DatasetInfo& find_dataset(std::string_view name);

/// Opens a split. Throws Error(usage) for an unknown name or more samples than there are, and Error(data), with the
/// file and if possible the offset and both values, if files are missing, truncated or corrupt.
std::unique_ptr<Dataset> open_dataset(std::string_view name, Split split, const DataOptions& options);

/// How many of the `available` samples the options ask for. Throws Error(usage) if they ask for more.
std::uint32_t limit_samples(const char* dataset, Split split, const DataOptions& options, std::uint32_t available);

}  // namespace ripieno::data
