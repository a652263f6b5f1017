#include "ripieno/train/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ripieno/core/file.h"
#include "ripieno/model/classifier.h"
#include "ripieno/model/zoo.h"
#include "tests/support/temporary_folder.h"

namespace ripieno::train {
namespace {

TEST(Checkpoint, ComesBackAsItWas) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state.pt";
  const auto model = model::zoo().find("vgg11-bn").make();
  const NamedTensors saved = state_dict(*model);
  save_tensors(path, saved);
  const NamedTensors loaded = load_tensors(path);
  ASSERT_EQ(loaded.size(), saved.size());
  for (std::size_t i = 0; i < saved.size(); ++i) {
    EXPECT_EQ(loaded[i].first, saved[i].first);
    EXPECT_TRUE(torch::equal(loaded[i].second, saved[i].second)) << saved[i].first;
  }
  const auto other = model::zoo().find("vgg11-bn").make();
  load_state_dict(*other, loaded, path);
  EXPECT_TRUE(torch::equal(other->parameters()[0], model->parameters()[0]));
}

TEST(Checkpoint, IsNoLargerThanItsTensors) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "views.pt";
  const auto flat = torch::zeros({1000000});
  save_tensors(path, {{"part", flat.narrow(0, 5, 10)}});
  EXPECT_LT(std::filesystem::file_size(path), 4000u);
}

TEST(Checkpoint, DamageAndStrangersAreNamed) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "damaged.pt";
  const auto expect = [&](ErrorKind kind, const char* part, const auto& act) {
    try {
      act();
      ADD_FAILURE() << "expected an error with: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    }
  };
  expect(ErrorKind::data, "no such checkpoint", [&] { load_tensors(path); });
  save_tensors(path, {{"weight", torch::ones({4, 4})}});
  const std::string good = read_file(path);
  for (const std::size_t length : {std::size_t{0}, std::size_t{10}, good.size() / 2, good.size() - 1}) {
    write_file(path, good.substr(0, length));
    expect(ErrorKind::data, "damaged", [&] { load_tensors(path); });
  }
  write_file(path, good);
  torch::nn::Linear linear(4, 4);
  expect(ErrorKind::data, "bias", [&] { load_state_dict(*linear, load_tensors(path), path); });
  torch::nn::Linear wide(torch::nn::LinearOptions(4, 5).bias(false));
  expect(ErrorKind::data, "weight is of shape", [&] { load_state_dict(*wide, load_tensors(path), path); });
  expect(ErrorKind::data, "has no checksum", [&] { StateReader(load_tensors(path), path); });

  std::vector<float> weight(16, 1), span(3);
  std::int64_t number = 0;
  StateWriter writer;
  writer.span("weight", NumberSpan(weight));
  save_tensors(path, writer.sealed());
  StateReader reader(load_tensors(path), path);
  expect(ErrorKind::data, "has no momentum", [&] { reader.span("momentum", NumberSpan(span)); });
  expect(ErrorKind::data, "16 numbers", [&] { reader.span("weight", NumberSpan(span)); });
  expect(ErrorKind::data, "not one whole number", [&] { reader.number("weight", number); });
}

TEST(Checkpoint, NumbersThatHaveChangedAreNoticed) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state.pt";
  std::vector<float> weights(1000, 1.0f);
  std::int64_t steps = 7;
  StateWriter writer;
  writer.span("weights", NumberSpan(weights));
  writer.number("steps", steps);
  save_tensors(path, writer.sealed());
  StateReader good(load_tensors(path), path);
  std::string bytes = read_file(path);
  std::string one(4 * 100, '\0');
  std::memcpy(one.data(), weights.data(), one.size());
  const std::size_t at = bytes.find(one);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 203] ^= 1;
  write_file(path, bytes);
  try {
    StateReader(load_tensors(path), path);
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_NE(std::string(error.what()).find("state.pt: is damaged: its numbers have the checksum"), std::string::npos)
        << error.what();
  }
}

void expect_damage(const std::filesystem::path& path, const std::string& bytes, const std::string& what) {
  write_file(path, bytes);
  try {
    load_tensors(path);
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), path.string() + ": is no checkpoint, or a damaged one (" + what + ")");
  }
}

/// LibTorch would make room for as many objects.
TEST(Checkpoint, AnObjectsNumberBeyondAllReasonIsDamage) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "many.pt";
  NamedTensors many;
  for (int i = 0; i < 200; ++i) many.emplace_back(text("tensor ", i), torch::ones({1}));
  save_tensors(path, many);
  EXPECT_EQ(load_tensors(path).size(), many.size());
  std::string bytes = read_file(path);
  const std::size_t at = bytes.find(std::string("r\x00\x01\x00\x00", 5));  // number 256
  ASSERT_NE(at, bytes.npos);
  bytes[at + 4] = '\x7f';
  expect_damage(path, bytes, "an object's number is too high");
}

/// LibTorch would make room for it.
TEST(Checkpoint, ATextBeyondTheFileIsDamage) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "one.pt";
  save_tensors(path, {{"weight", torch::ones({1})}});
  const std::string good = read_file(path), weight("X\x06\x00\x00\x00weight", 11);
  const std::size_t at = good.find(weight);
  ASSERT_NE(at, good.npos);
  const std::string lengths[]{std::string("X\xff\xff\xff\xff", 5),
                              std::string("\x8d\x00\x00\x00\x00\x7f\x00\x00\x00", 9), "\x8d" + std::string(8, '\xff')};
  for (const std::string& length : lengths) {
    std::string bytes = good;
    bytes.replace(at, length.size(), length);
    expect_damage(path, bytes, "a text ends after the file");
  }
}

TEST(Checkpoint, ATensorBeyondItsRecordIsDamage) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "two.pt";
  save_tensors(path, {{"short", torch::ones({1})}, {"long", torch::ones({6})}});
  std::string bytes = read_file(path);
  const std::size_t at = bytes.find(std::string("X\x01\x00\x00\x00", 5) + "1");  // the second record's name
  ASSERT_NE(at, bytes.npos);
  bytes[at + 5] = '0';
  expect_damage(path, bytes, "a tensor that is not whole");
}

TEST(Checkpoint, NoDamageDoesHarm) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "damaged.pt";
  save_tensors(path, {{"weight", torch::ones({4, 4})}, {"bias", torch::ones({4})}});
  const std::string good = read_file(path);
  int refused = 0, count = 0;
  const auto read = [&](const std::string& bytes) {
    write_file(path, bytes);
    ++count;
    try {
      torch::nn::Linear linear(4, 4);
      load_state_dict(*linear, load_tensors(path), path);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
      ++refused;
    }
  };
  for (std::size_t i = 0; i < good.size(); i += 3) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << i % 8));
    read(bytes);
  }
  EXPECT_GT(refused, count / 4) << "of " << count;
}

}  // namespace
}  // namespace ripieno::train
