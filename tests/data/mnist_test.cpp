#include "ripieno/data/mnist.h"

#include "files.h"

namespace ripieno::data {
namespace {

constexpr auto train_images = "train-images-idx3-ubyte", train_labels = "train-labels-idx1-ubyte";

void write_train(const std::filesystem::path& folder, std::uint32_t count) {
  write(folder / train_images, idx_images(count));
  write(folder / train_labels, idx_labels(count));
}

void expect_samples(Dataset& set) {
  std::vector<std::uint8_t> pixels(784);
  for (std::uint32_t i = 0; i < set.size(); ++i) {
    EXPECT_EQ(set.read(i, pixels), label_of(i));
    for (std::size_t j = 0; j < pixels.size(); ++j)
      ASSERT_EQ(pixels[j], pixel_of(i, j)) << "sample " << i << " at " << j;
  }
}

TEST(Mnist, ReadsEverySampleOfTheFolderOrItsSubfolder) {
  TemporaryFolder folder;
  write_train(folder.path() / "mnist", 7);
  write(folder.path() / "t10k-images-idx3-ubyte", idx_images(3));
  write(folder.path() / "t10k-labels-idx1-ubyte", idx_labels(3));
  const auto train = open_dataset("mnist", Split::train, {.folder = folder.path()});
  EXPECT_EQ(train->size(), 7u);
  EXPECT_EQ(train->shape(), (ImageShape{1, 28, 28}));
  EXPECT_EQ(train->classes(), 10);
  expect_samples(*train);
  const auto test = open_dataset("mnist", Split::test, {.folder = folder.path()});
  EXPECT_EQ(test->size(), 3u);
  expect_samples(*test);
}

TEST(Mnist, ReadsOnlyTheBytesOfItsSamples) {
  TemporaryFolder folder;
  write_train(folder.path(), 50);
  const auto set = open_dataset("mnist", Split::train, {.folder = folder.path()});
  EXPECT_EQ(set->bytes_read(), 24u);
  std::vector<std::uint8_t> pixels(784);
  set->read(49, pixels);
  EXPECT_EQ(set->bytes_read(), 24u + 785u);
  set->read(3, pixels);
  EXPECT_EQ(set->bytes_read(), 24u + 2 * 785u);
  EXPECT_EQ(set->label(49), set->read(49, pixels));
  EXPECT_EQ(set->bytes_read(), 24u + 3 * 785u + 1) << "a label alone is a byte";
}

TEST(Mnist, TakesTheFirstSamplesOnly) {
  TemporaryFolder folder;
  write_train(folder.path(), 7);
  const auto set = open_dataset("mnist", Split::train, {.folder = folder.path(), .train_samples = 5});
  EXPECT_EQ(set->size(), 5u);
  expect_samples(*set);
  std::vector<std::uint8_t> pixels(784);
  expect_error(ErrorKind::internal, {"sample 5", "of 5"}, [&] { set->read(5, pixels); });
  pixels.pop_back();
  expect_error(ErrorKind::internal, {"783", "784"}, [&] { set->read(0, pixels); });
  expect_error(ErrorKind::usage, {"train_samples", "8", "7"},
               [&] { open_dataset("mnist", Split::train, {.folder = folder.path(), .train_samples = 8}); });
}

TEST(Mnist, SaysWhatItLookedForAndWhere) {
  TemporaryFolder folder;
  const auto open = [&] { open_dataset("mnist", Split::test, {.folder = folder.path()}); };
  expect_error(ErrorKind::data,
               {"t10k-images-idx3-ubyte", ".gz", folder.path().string() + ",", (folder.path() / "mnist").string(),
                "data folder", "digits"},
               open);
  write(folder.path() / "t10k-images-idx3-ubyte", idx_images(1));
  expect_error(ErrorKind::data, {"t10k-labels-idx1-ubyte"}, open);
}

/// Opens a set whose image file has been spoilt.
void expect_bad_images(const std::string& content, std::vector<std::string> parts) {
  TemporaryFolder folder;
  write_train(folder.path(), 3);
  write(folder.path() / train_images, content);
  parts.push_back((folder.path() / train_images).string());
  expect_error(ErrorKind::data, parts, [&] { open_dataset("mnist", Split::train, {.folder = folder.path()}); });
}

TEST(Mnist, RefusesATruncatedFile) {
  const std::string good = idx_images(3);
  expect_bad_images(good.substr(0, good.size() - 1), {"offset 4", "3 images", "2368", "2367", "truncated"});
  expect_bad_images(good.substr(0, 16), {"2368", "16", "truncated"});
  expect_bad_images(good.substr(0, 9), {"ends at 9", "16"});
  expect_bad_images("", {"ends at 0", "16"});
}

TEST(Mnist, RefusesAFileThatIsTooLong) { expect_bad_images(idx_images(3) + "x", {"2368", "2369", "corrupt"}); }

TEST(Mnist, RefusesAnAbsurdCount) {
  expect_bad_images(idx_images(3, 0x80000000u), {"2147483648", "1683627180048", "2368"});
  expect_bad_images(idx_images(3, 0xFFFFFFFFu), {"4294967295", "2368"});
  expect_bad_images(idx_images(0), {"offset 4", "0"});
}

TEST(Mnist, RefusesAnotherHeader) {
  std::string bytes = idx_images(3);
  expect_bad_images(idx_labels(3) + std::string(2368, 'x'), {"offset 0", "0x00000801", "0x00000803"});
  expect_bad_images(std::string(2368, '\xFF'), {"offset 0", "0xffffffff", "0x00000803"});
  expect_bad_images(bytes.replace(8, 4, big_endian(32)), {"rows", "offset 8", "32", "28"});
  bytes = idx_images(3);
  expect_bad_images(bytes.replace(12, 4, big_endian(0)), {"columns", "offset 12", "0", "28"});
}

TEST(Mnist, RefusesCountsThatDiffer) {
  TemporaryFolder folder;
  write(folder.path() / train_images, idx_images(3));
  write(folder.path() / train_labels, idx_labels(4));
  expect_error(ErrorKind::data, {train_images, "3 images", train_labels, "4 labels"},
               [&] { open_dataset("mnist", Split::train, {.folder = folder.path()}); });
}

TEST(Mnist, RefusesALabelOutOfRangeWhenItIsRead) {
  TemporaryFolder folder;
  write_train(folder.path(), 3);
  std::string labels = idx_labels(3);
  labels[8 + 2] = 10;
  write(folder.path() / train_labels, labels);
  const auto set = open_dataset("mnist", Split::train, {.folder = folder.path()});
  std::vector<std::uint8_t> pixels(784);
  EXPECT_EQ(set->read(1, pixels), label_of(1));
  expect_error(ErrorKind::data, {(folder.path() / train_labels).string(), "offset 10", " 10 ", "0 to 9"},
               [&] { set->read(2, pixels); });
  expect_error(ErrorKind::data, {"offset 10", " 10 ", "0 to 9"}, [&] { set->label(2); });
}

TEST(Mnist, NamesTheOffsetWhenTheFileShrinksWhileOpen) {
  TemporaryFolder folder;
  write_train(folder.path(), 3);
  const auto set = open_dataset("mnist", Split::train, {.folder = folder.path()});
  std::filesystem::resize_file(folder.path() / train_images, 16 + 784 + 100);
  std::vector<std::uint8_t> pixels(784);
  EXPECT_EQ(set->read(0, pixels), label_of(0));
  expect_error(ErrorKind::data, {train_images, "900", "800", "truncated"}, [&] { set->read(1, pixels); });
}

TEST(Mnist, ReadsPackedFilesThroughTheCache) {
  TemporaryFolder folder;
  const std::string images = gzip(idx_images(7)), labels = gzip(idx_labels(7));
  write(folder.path() / "in" / (std::string(train_images) + ".gz"), images);
  write(folder.path() / "in" / (std::string(train_labels) + ".gz"), labels);
  const DataOptions options = {.folder = folder.path() / "in", .cache = folder.path() / "cache"};
  const auto first = open_dataset("mnist", Split::train, options);
  EXPECT_EQ(first->bytes_read(), 8 + images.size() + 8 + labels.size() + 24);
  expect_samples(*first);
  const auto second = open_dataset("mnist", Split::train, options);
  EXPECT_EQ(second->bytes_read(), 8u + 8u + 24u);
  expect_samples(*second);
  expect_error(ErrorKind::usage, {"cache", train_images},
               [&] { open_dataset("mnist", Split::train, {.folder = folder.path() / "in"}); });
}

TEST(Mnist, ChecksTheHeaderOfPackedFilesToo) {
  TemporaryFolder folder;
  write(folder.path() / (std::string(train_images) + ".gz"), gzip(idx_images(3, 0x80000000u)));
  expect_error(ErrorKind::data, {train_images, "2147483648", "2368"}, [&] {
    open_dataset("mnist", Split::train, {.folder = folder.path(), .cache = folder.path() / "cache"});
  });
}

TEST(Mnist, IsFoundUnderTheNamesAndInTheFoldersThatPackagersUse) {
  TemporaryFolder folder;
  const auto in = folder.path() / "in";
  const DataOptions options = {.folder = in, .cache = folder.path() / "cache"};
  const auto open = [&] { return open_dataset("mnist", Split::train, options); };
  const auto expect_found = [&](const char* images, const char* labels) {
    std::filesystem::remove_all(in);
    const auto packed = [](const char* name, const std::string& bytes) {
      return std::filesystem::path(name).extension() == ".gz" ? gzip(bytes) : bytes;
    };
    write(in / images, packed(images, idx_images(3)));
    write(in / labels, packed(labels, idx_labels(3)));
    expect_samples(*open());
  };
  expect_found("train-images.idx3-ubyte", "train-labels.idx1-ubyte");
  expect_found("mnist/train-images.idx3-ubyte.gz", "train-labels-idx1-ubyte.gz");
  expect_found("MNIST/raw/train-images-idx3-ubyte", "MNIST/raw/train-labels-idx1-ubyte");
  expect_found("train-images-idx3-ubyte/train-images-idx3-ubyte", "train-labels.idx1-ubyte");
  // What is not known in its form is named.
  std::filesystem::remove_all(in);
  write(in / "Train_Images.npy", "x");
  expect_error(ErrorKind::data, {train_images, (in / "Train_Images.npy").string(), "not known in this form"}, open);
  std::filesystem::remove_all(in);
  expect_error(ErrorKind::data, {train_images, "there is no folder " + in.string()}, open);
  write(in, "x");
  expect_error(ErrorKind::data, {train_images, in.string(), "is no folder"}, open);
}

TEST(Mnist, IsPackedWhereItsContentSaysSo) {
  TemporaryFolder folder;
  const auto plain = folder.path() / train_images, packed = folder.path() / (std::string(train_images) + ".gz");
  write(folder.path() / train_labels, idx_labels(3));
  const DataOptions options = {.folder = folder.path(), .cache = folder.path() / "cache"};
  const auto open = [&] { return open_dataset("mnist", Split::train, options); };
  write(packed, idx_images(3));  // unpacked already, by who fetched it
  expect_samples(*open());
  const std::string page = "\n<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head></html>";
  for (const auto& [content, kind] : {std::pair{page, "a web page (HTML)"},
                                      {"<?xml version=\"1.0\"?><Error>", "an XML document"},
                                      {"version https://git-lfs.github.com/spec/v1\noid", "Git LFS"},
                                      {"PK\3\4and what else is in it", "a zip archive"},
                                      {"Not found, sorry", "\"Not found, sorry\""}}) {
    write(packed, content);
    expect_error(ErrorKind::data, {packed.string(), "not packed with gzip", kind, "fetch it again"}, open);
  }
  write(plain, gzip(idx_images(3)));
  expect_samples(*open());
  write(plain, page);
  expect_error(ErrorKind::data, {plain.string(), "offset 0", "a web page (HTML)", "fetch it again"}, open);
}

/// Another user, for whom permissions hold, where the tests are run by root.
class Nobody {
 public:
  Nobody() : is_root_(::geteuid() == 0) { EXPECT_EQ(is_root_ ? ::seteuid(65534) : 0, 0); }
  ~Nobody() { EXPECT_EQ(is_root_ ? ::seteuid(0) : 0, 0); }

 private:
  bool is_root_;
};

TEST(Mnist, SaysWhatMayNotBeRead) {
  TemporaryFolder folder;
  const auto in = folder.path() / "in";
  write_train(in, 3);
  const auto open = [&] {
    const Nobody nobody;
    open_dataset("mnist", Split::train, {.folder = in});
  };
  open();
  std::filesystem::permissions(in / train_images, std::filesystem::perms::none);
  expect_error(ErrorKind::io, {(in / train_images).string(), "cannot open", "Permission denied"}, open);
  std::filesystem::permissions(in, std::filesystem::perms::none);
  expect_error(ErrorKind::io, {"cannot look for", train_images, in.string(), "Permission denied"}, open);
  std::filesystem::permissions(in, std::filesystem::perms::owner_all);
}

}  // namespace
}  // namespace ripieno::data
