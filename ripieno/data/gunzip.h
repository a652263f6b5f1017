// Unpacks a .gz file once into a cache folder, whoever of the workers comes first, so that samples can be read at any
// offset afterwards.
#pragma once

#include <cstdint>
#include <filesystem>

namespace ripieno::data {

struct Unpacked {
  std::filesystem::path path;  ///< the plain file, in the cache where it was packed
  std::uint64_t bytes_read =
      0;  ///< of a packed one: its 8-byte trailer, and once all of it; without the first bytes' look
};

/// The plain content of a file, packed with gzip or not: its first bytes say so, not its name. Throws as unpack_gzip(),
/// and Error(data) where a .gz is neither packed nor a file of data, e.g. a web page.
Unpacked plain_file(const std::filesystem::path& file, const std::filesystem::path& cache);

/// The plain content of `packed` as a file in `cache`, unpacked now unless it is there already. Its name carries the
/// content's CRC-32, so another file of the same name never stands in for it, and it appears whole or not at all:
/// any number of workers may call this at once. Throws Error(data) when `packed` is truncated, corrupt, or more than
/// one gzip member, Error(usage) when `cache` is empty, and Error(io) when the cache cannot be written.
Unpacked unpack_gzip(const std::filesystem::path& packed, const std::filesystem::path& cache);

}  // namespace ripieno::data
