// Unpacks a .gz file into a cache folder, so that samples can be read at any offset. The first worker that comes
// unpacks it for all.
#pragma once

#include <cstdint>
#include <filesystem>

namespace ripieno::data {

struct Unpacked {
  std::filesystem::path path;    ///< the plain file; in the cache if the file was packed
  std::uint64_t bytes_read = 0;  ///< of a packed file: its 8-byte trailer, and all of it if it was unpacked now; not
                                 ///< counting the look at its first bytes
};

/// The plain content of a file, packed with gzip or not, judged by its first bytes, not its name. Throws as
/// unpack_gzip(), and Error(data) if a .gz is neither packed nor data, e.g. a web page.
Unpacked plain_file(const std::filesystem::path& file, const std::filesystem::path& cache);

/// The plain content of `packed` as a file in `cache`, unpacked now unless it is there already. Its name carries the
/// content's CRC-32, so another file of the same name never stands in for it, and it appears complete or not at all:
/// any number of workers may call this at once. Throws Error(data) if `packed` is truncated, corrupt, or has more than
/// one gzip member, Error(usage) if `cache` is empty, and Error(io) if the cache cannot be written.
Unpacked unpack_gzip(const std::filesystem::path& packed, const std::filesystem::path& cache);

}  // namespace ripieno::data
