#include "ripieno/data/generated.h"

#include "ripieno/core/error.h"

namespace ripieno::data {
namespace {

// The key of a seed's use, so that no other use shares these random numbers.
constexpr std::uint64_t for_images = 0x696D61676573;  // "images"

// An epoch's order of so many samples takes 40 MB per worker; more is probably a typing error.
constexpr std::uint32_t most_samples = 10'000'000;

class Generated final : public Dataset {
 public:
  Generated(const GeneratedSet& set, Split split, const DataOptions& options)
      : set_(set), key_(Random(options.seed ^ for_images, split == Split::train ? 0 : 1).next()) {
    const std::uint32_t usual = split == Split::train ? set.train : set.test;
    size_ = options.samples(split) == 0 ? usual : options.samples(split);
    if (size_ > most_samples) {
      fail(ErrorKind::usage, name(split), "_samples asks for ", size_, " generated samples; ask for at most ",
           most_samples);
    }
  }

  ImageShape shape() const override { return set_.shape; }
  int classes() const override { return set_.classes; }
  std::uint32_t size() const override { return size_; }
  std::uint64_t bytes_read() const override { return 0; }

  int read(std::uint32_t index, std::span<std::uint8_t> pixels) override {
    require_sample(index, pixels);
    Random random(key_, index);
    return set_.draw(random, pixels);
  }

 private:
  GeneratedSet set_;
  std::uint64_t key_;
  std::uint32_t size_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> open_generated(const GeneratedSet& set, Split split, const DataOptions& options) {
  return std::make_unique<Generated>(set, split, options);
}

}  // namespace ripieno::data
