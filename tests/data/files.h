// What the tests of data sets share: tiny files in the data sets' forms, and errors looked into.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ripieno/core/error.h"
#include "tests/support/temporary_folder.h"

namespace ripieno::data {

inline void write(const std::filesystem::path& path, const std::string& content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

inline std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift & 255));
  return bytes;
}

/// Byte j of the image of sample i, different in neighbours of both.
inline std::uint8_t pixel_of(std::uint32_t i, std::size_t j) {
  return static_cast<std::uint8_t>(31 * i + 7 * j + j / 28);
}
/// The label of sample i.
inline int label_of(std::uint32_t i) { return static_cast<int>((3 * i + 1) % 10); }

inline std::string idx_images(std::uint32_t count, std::uint32_t claimed) {
  std::string bytes = big_endian(0x803) + big_endian(claimed) + big_endian(28) + big_endian(28);
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < 784; ++j) bytes.push_back(static_cast<char>(pixel_of(i, j)));
  }
  return bytes;
}
inline std::string idx_images(std::uint32_t count) { return idx_images(count, count); }

inline std::string idx_labels(std::uint32_t count) {
  std::string bytes = big_endian(0x801) + big_endian(count);
  for (std::uint32_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(label_of(i)));
  return bytes;
}

/// CIFAR-10 records of samples [begin, end).
inline std::string cifar_records(std::uint32_t begin, std::uint32_t end) {
  std::string bytes;
  for (std::uint32_t i = begin; i < end; ++i) {
    bytes.push_back(static_cast<char>(label_of(i)));
    for (std::size_t j = 0; j < 3072; ++j) bytes.push_back(static_cast<char>(pixel_of(i, j)));
  }
  return bytes;
}

/// One gzip member.
inline std::string gzip(const std::string& content) {
  std::string packed(content.size() + 1024, '\0');
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// That `act` throws an Error of this kind whose message has all the parts.
template <class Act>
void expect_error(ErrorKind kind, const std::vector<std::string>& parts, Act act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_STREQ(name(error.kind()), name(kind)) << error.what();
    for (const auto& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "no \"" << part << "\" in: " << error.what();
    }
    return;
  }
  ADD_FAILURE() << "no error where one of kind " << name(kind) << " is due";
}

/// FNV-1a, 64 bits.
class Hash {
 public:
  void add(std::uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001B3ull; }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325ull;
};

}  // namespace ripieno::data
