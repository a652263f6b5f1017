#include "ripieno/data/gunzip.h"

#include <zlib.h>

#include <algorithm>
#include <iomanip>
#include <string>
#include <vector>

#include "ripieno/core/file.h"
#include "ripieno/data/locate.h"

namespace ripieno::data {
namespace {

constexpr std::uint64_t smallest_gzip = 18;     // header 10, trailer 8 (RFC 1952)
constexpr std::uint64_t greatest_ratio = 1032;  // of deflate: 258 bytes from 2 bits

std::uint32_t little_endian(const std::byte* p) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | std::to_integer<std::uint32_t>(p[i]);
  return value;
}

/// zlib's state, freed on every path out.
struct Inflater {
  z_stream stream = {};
  Inflater() { require(inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK, "zlib cannot start"); }
  ~Inflater() { inflateEnd(&stream); }
};

/// The content, of exactly `size` bytes. zlib checks its CRC-32 and length against the trailer.
std::string inflate_all(RandomAccessFile& file, std::uint64_t size) {
  std::string content(size, '\0');
  std::vector<std::byte> block(std::min<std::uint64_t>(file.size(), 1 << 18));
  Inflater inflater;
  z_stream& stream = inflater.stream;
  stream.next_out = reinterpret_cast<Bytef*>(content.data());
  stream.avail_out = static_cast<uInt>(size);
  int status = Z_OK;
  for (std::uint64_t offset = 0; offset < file.size() && status == Z_OK;) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), file.size() - offset));
    file.read(offset, Bytes(block).first(n));
    offset += n;
    stream.next_in = reinterpret_cast<Bytef*>(block.data());
    stream.avail_in = static_cast<uInt>(n);
    status = inflate(&stream, Z_NO_FLUSH);
    if (status == Z_OK && stream.avail_in > 0) status = Z_BUF_ERROR;  // more content than the trailer says
  }
  if (status != Z_STREAM_END || stream.total_in != file.size() || stream.total_out != size) {
    fail(ErrorKind::data, file.path().string(),
         ": cannot unpack: ", stream.msg ? stream.msg : "not one whole gzip member", ", at offset ", stream.total_in,
         " of ", file.size(), ", after ", stream.total_out, " of ", size,
         " unpacked bytes; the file is truncated or corrupt, fetch it again");
  }
  return content;
}

/// Whether the file is there, whole and undamaged.
bool is_unpacked(const std::filesystem::path& path, std::uint64_t size, std::uint32_t crc) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) || std::filesystem::file_size(path, error) != size || error)
    return false;
  RandomAccessFile file(path);
  std::vector<std::byte> block(1 << 18);
  uLong found = ::crc32(0, nullptr, 0);
  for (std::uint64_t at = 0; at < size; at += block.size()) {
    block.resize(std::min<std::uint64_t>(block.size(), size - at));
    file.read(at, block);
    found = ::crc32(found, reinterpret_cast<const Bytef*>(block.data()), static_cast<uInt>(block.size()));
  }
  return found == crc;
}

}  // namespace

Unpacked plain_file(const std::filesystem::path& file, const std::filesystem::path& cache) {
  const std::string first = first_bytes(file);
  if (first.rfind("\x1F\x8B", 0) == 0) return unpack_gzip(file, cache);
  if (const std::string kind = kind_of(first); file.extension() == ".gz" && !kind.empty()) {
    fail(ErrorKind::data, file.string(), ": is not packed with gzip, but ", kind,
         "; it is no file of data, fetch it again");
  }
  return {file, 0};
}

Unpacked unpack_gzip(const std::filesystem::path& packed, const std::filesystem::path& cache) {
  if (cache.empty()) {
    fail(ErrorKind::usage, packed.string(), ": is packed, and no cache folder is set to unpack it to; set one, or ",
         "unpack it with gunzip");
  }
  RandomAccessFile file(packed);
  if (file.size() < smallest_gzip) {
    fail(ErrorKind::data, packed.string(), ": has ", file.size(), " bytes where the smallest gzip file has ",
         smallest_gzip, "; the file is truncated, fetch it again");
  }
  std::byte trailer[8];
  file.read(file.size() - sizeof trailer, trailer);
  const std::uint32_t crc = little_endian(trailer);
  const std::uint64_t size = little_endian(trailer + 4);
  if (size > file.size() * greatest_ratio) {
    fail(ErrorKind::data, packed.string(), ": the size at offset ", file.size() - 4, " says ", size,
         " bytes unpacked, and ", file.size(), " packed bytes hold at most ", file.size() * greatest_ratio,
         "; the file is truncated or corrupt, fetch it again");
  }

  std::ostringstream plain;
  plain << packed.stem().string() << '.' << std::hex << std::setfill('0') << std::setw(8) << crc;
  const std::filesystem::path path = cache / plain.str();
  if (!is_unpacked(path, size, crc)) {
    const std::string content = inflate_all(file, size);
    create_folders(cache);
    write_file(path, content);
  }
  return {path, file.bytes_read()};
}

}  // namespace ripieno::data
