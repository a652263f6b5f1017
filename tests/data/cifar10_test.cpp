#include "ripieno/data/cifar10.h"

#include "files.h"
#include "ripieno/core/file.h"

namespace ripieno::data {
namespace {

std::string batch_name(int i) { return text("data_batch_", i, ".bin"); }

/// Five files of 3, 1, 2, 4 and 1 samples.
void write_train(const std::filesystem::path& folder) {
  const std::uint32_t ends[] = {0, 3, 4, 6, 10, 11};
  for (int i = 1; i <= 5; ++i) write(folder / batch_name(i), cifar_records(ends[i - 1], ends[i]));
}

void expect_sample(Dataset& set, std::uint32_t i) {
  std::vector<std::uint8_t> pixels(3072);
  EXPECT_EQ(set.read(i, pixels), label_of(i));
  for (std::size_t j = 0; j < pixels.size(); ++j) ASSERT_EQ(pixels[j], pixel_of(i, j)) << "sample " << i << " at " << j;
}

TEST(Cifar10, ReadsEverySampleAcrossFilesAndOnlyItsBytes) {
  TemporaryFolder folder;
  write_train(folder.path());
  const auto set = open_dataset("cifar10", Split::train, {.folder = folder.path()});
  EXPECT_EQ(set->size(), 11u);
  EXPECT_EQ(set->shape(), (ImageShape{3, 32, 32}));
  EXPECT_EQ(set->classes(), 10);
  EXPECT_EQ(set->bytes_read(), 0u);
  std::uint64_t read = 0;
  for (const std::uint32_t i : {10u, 0u, 3u, 2u, 9u, 4u, 5u, 6u, 1u, 7u, 8u}) {
    expect_sample(*set, i);
    EXPECT_EQ(set->bytes_read(), read += 3073);
  }
  std::vector<std::uint8_t> pixels(3072);
  for (std::uint32_t i = 0; i < set->size(); ++i) EXPECT_EQ(set->label(i), set->read(i, pixels));
  EXPECT_EQ(set->bytes_read(), read + set->size() * 3074) << "a label alone is a byte";
}

TEST(Cifar10, IsNormalisedByTheSetsOwnDeviations) {
  // Of all 50,000 images' pixels together; means of single images' deviations, 0.2023, .., are often taken for them.
  const Normalisation all = find_dataset("cifar10").normalisation;
  EXPECT_EQ(all.mean, (std::array{0.4914f, 0.4822f, 0.4465f}));
  EXPECT_EQ(all.std, (std::array{0.2470f, 0.2435f, 0.2616f}));
}

TEST(Cifar10, LooksInTheSubfolder) {
  TemporaryFolder folder;
  write_train(folder.path() / "cifar-10-batches-bin");
  write(folder.path() / "cifar-10-batches-bin/test_batch.bin", cifar_records(0, 2));
  EXPECT_EQ(open_dataset("cifar10", Split::train, {.folder = folder.path()})->size(), 11u);
  const auto test = open_dataset("cifar10", Split::test, {.folder = folder.path()});
  EXPECT_EQ(test->size(), 2u);
  expect_sample(*test, 1);
}

TEST(Cifar10, TakesTheFirstSamplesOnly) {
  TemporaryFolder folder;
  write_train(folder.path());
  EXPECT_EQ(open_dataset("cifar10", Split::train, {.folder = folder.path(), .train_samples = 4})->size(), 4u);
  expect_error(ErrorKind::usage, {"train_samples", "12", "11"},
               [&] { open_dataset("cifar10", Split::train, {.folder = folder.path(), .train_samples = 12}); });
}

TEST(Cifar10, SaysWhichFileIsMissingAndWhereItLooked) {
  TemporaryFolder folder;
  const auto open = [&] { open_dataset("cifar10", Split::train, {.folder = folder.path()}); };
  write_train(folder.path());
  std::filesystem::remove(folder.path() / batch_name(4));
  expect_error(ErrorKind::data, {batch_name(4), folder.path().string() + ",", "cifar-10-batches-bin", "data folder"},
               open);
  write(folder.path() / "cifar-10-binary.tar.gz", "packed");
  expect_error(ErrorKind::data, {batch_name(4), "cifar-10-binary.tar.gz", "tar"}, open);
}

TEST(Cifar10, RefusesAFileThatIsNoWholeNumberOfRecords) {
  TemporaryFolder folder;
  write_train(folder.path());
  const auto bad = folder.path() / batch_name(3);
  for (const auto& [size, rest] :
       {std::pair{0, "0 more"}, {3072, "3072 more"}, {6145, "3072 more"}, {6147, "1 more"}}) {
    write(bad, std::string(static_cast<std::size_t>(size), 'x'));
    expect_error(ErrorKind::data, {bad.string(), text("has ", size, " bytes"), rest, "3073"},
                 [&] { open_dataset("cifar10", Split::train, {.folder = folder.path()}); });
  }
}

TEST(Cifar10, RefusesALabelOutOfRangeWhenItIsRead) {
  TemporaryFolder folder;
  write_train(folder.path());
  std::string bytes = cifar_records(6, 10);
  bytes[2 * 3073] = static_cast<char>(200);
  write(folder.path() / batch_name(4), bytes);
  const auto set = open_dataset("cifar10", Split::train, {.folder = folder.path()});
  std::vector<std::uint8_t> pixels(3072);
  EXPECT_EQ(set->read(7, pixels), label_of(7));
  expect_error(ErrorKind::data, {(folder.path() / batch_name(4)).string(), "offset 6146", "200", "0 to 9"},
               [&] { set->read(8, pixels); });
}

TEST(Cifar10, SaysWhatItHasInItsPlace) {
  TemporaryFolder folder;
  write_train(folder.path());
  const auto batch = folder.path() / batch_name(2);
  const DataOptions options = {.folder = folder.path(), .cache = folder.path() / "cache"};
  const auto open = [&] { return open_dataset("cifar10", Split::train, options); };
  const std::string records = read_file(batch);
  write(batch, gzip(records));
  EXPECT_EQ(open()->size(), 11u);
  write(batch, "<html><body>moved</body></html>");
  expect_error(ErrorKind::data, {batch.string(), "a web page (HTML)", "fetch it again"}, open);
  std::filesystem::remove(batch);
  write(folder.path() / "cifar-10-batches-py" / "data_batch_2", "pickled");
  expect_error(ErrorKind::data,
               {batch_name(2), "cifar-10-batches-py", "is the version for Python", "cifar-10-binary.tar.gz"}, open);
}

}  // namespace
}  // namespace ripieno::data
